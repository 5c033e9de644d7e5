// The devices of claims (dynamic resource allocation) as the driver gpu.nvidia.com publishes them
// in ResourceSlices: a claim names a device of a pool, and the slices tell which GPU or MIG device
// that is (metrics-exporter.md 6.7, dra-driver.md 7.2 and 8.1).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kube/client.h"
#include "kube/informer.h"

namespace pitcrew::node::metrics_exporter {

inline constexpr std::string_view kClaimDriver = "gpu.nvidia.com";

struct PublishedDevice {
  std::string uuid;  // of a GPU or MIG device; empty for a MIG device that is made for its claim
  std::string parent_uuid = {};  // of a MIG device: its GPU
  std::string profile = {};      // of a MIG device

  bool operator==(const PublishedDevice&) const = default;
};
// By pool and device.
using PublishedDevices = std::map<std::pair<std::string, std::string>, PublishedDevice>;

// One object: a part of a pool.
struct PublishedSlice {
  std::string pool;
  std::int64_t generation = 0;
  std::map<std::string, PublishedDevice> devices;  // by name; GPUs and MIG devices only

  bool operator==(const PublishedSlice&) const = default;
};

// Of any served version of the API. What is no slice of this driver has no devices.
PublishedSlice ReadSlice(const codec::Json& object);
// Of each pool its newest generation counts: slices of older ones are about to be deleted.
PublishedDevices DevicesOf(const std::vector<PublishedSlice>& slices);

// Kept up to date by a watch.
class SliceWatch {
 public:
  // Slices of all nodes where `node_name` is empty.
  static std::unique_ptr<SliceWatch> Start(std::shared_ptr<kube::Client> client,
                                           const std::string& node_name, const io::StopToken& stop);
  [[nodiscard]] PublishedDevices Devices() const;

 private:
  SliceWatch() = default;
  std::unique_ptr<kube::Informer<PublishedSlice>> informer_;
};

}  // namespace pitcrew::node::metrics_exporter

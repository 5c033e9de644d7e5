// The kubelet's pod resources API: which pod of this node holds which devices of device plugins
// (k8s.io/kubelet, podresources v1). No gRPC type leaves this room.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::rpc {

// Devices of one resource that one container of a pod holds, by the ids that the device plugin gave
// them.
struct HeldDevices {
  std::string resource;  // "nvidia.com/gpu"
  std::vector<std::string> ids;
  std::string container = {};

  bool operator==(const HeldDevices&) const = default;
};

// A device that a container holds by a claim (dynamic resource allocation).
struct ClaimedDevice {
  std::string container;
  std::string claim_namespace;
  std::string claim_name;
  std::string driver;  // "gpu.nvidia.com"
  std::string pool;
  std::string device;

  bool operator==(const ClaimedDevice&) const = default;
};

struct PodDevices {
  std::string namespace_name;
  std::string pod_name;
  std::vector<HeldDevices> devices;  // of all containers; a resource may stand there several times
  std::vector<ClaimedDevice> claims = {};

  bool operator==(const PodDevices&) const = default;
};

// Every pod that the kubelet has admitted, those without devices too. kNotFound when nothing lies
// at `socket`, kUnsupported when the kubelet does not serve this API, kTimeout at the deadline,
// kCancelled on stop, kUnavailable for any other refusal.
base::Result<std::vector<PodDevices>> ListPodDevices(const std::filesystem::path& socket,
                                                     const io::StopToken& stop,
                                                     base::Deadline deadline);

// The same over one connection that stays, for those who ask often. Thread-safe.
class PodResources {
 public:
  explicit PodResources(std::filesystem::path socket);
  ~PodResources();
  PodResources(const PodResources&) = delete;
  PodResources& operator=(const PodResources&) = delete;

  base::Result<std::vector<PodDevices>> List(const io::StopToken& stop,
                                             base::Deadline deadline) const;

 private:
  struct Connection;
  const std::filesystem::path socket_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace pitcrew::rpc

// The vGPUs of this node: read, made, removed. Through sysfs alone, so it works while no program of
// the driver does.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/root.h"
#include "node/vgpu/gpu.h"
#include "node/vgpu_types/known_types.h"

namespace pitcrew::node::vgpu {

struct NodeSettings {
  host::Root root = host::Root();  // with /sys
  // With /proc of all processes of the node: in a container the host's root.
  host::Root processes = host::Root();
  // Where NVIDIA's sriov-manage is looked for, in this order.
  std::vector<host::Root> driver_roots = {host::Root()};
  // Names of the vendor-specific framework's types.
  std::filesystem::path known_types = vgpu_types::kKnownTypesFile;
};

// One thread uses it at a time.
class NodeVgpus {
 public:
  explicit NodeVgpus(NodeSettings settings);

  // All GPUs of the node by PCI address, also those that offer no vGPUs. kUnavailable
  // "VgpusUnreadable" for a GPU of which something is there that cannot be read: nothing may be
  // changed then.
  base::Result<std::vector<Gpu>> Read();
  // One place anew: what it offers shrinks while its siblings fill.
  base::Result<Slot> ReadSlot(const Gpu& gpu, const gpu::PciAddress& slot);
  // Writes down what Read has learned; best effort.
  void RememberTypes();

  // Makes one of what ReadSlot has told; a mediated device gets this UUID. kUnavailable
  // "NoRoomLeft" when there is no room any more.
  base::Status Create(const Gpu& gpu, const gpu::PciAddress& slot, const Offer& offer,
                      std::string_view uuid);
  // Success when it is gone already. kConflict "DeviceBusy".
  base::Status Remove(const Gpu& gpu, const Vgpu& vgpu);

  // All virtual functions of a GPU that has none: by NVIDIA's sriov-manage where a driver root has
  // it, else through sysfs.
  base::Status EnableFunctions(const Gpu& gpu);
  // Removes them again, in the same way.
  base::Status DisableFunctions(const Gpu& gpu);

 private:
  struct Listing;

  base::Status ReadMdevs(const Listing& listing, Gpu& gpu) const;
  base::Status ReadVendor(const Listing& listing, Gpu& gpu);
  [[nodiscard]] base::Observed<std::vector<std::string>> HoldersOf(
      const Listing& listing, const std::filesystem::path& device) const;
  [[nodiscard]] std::optional<base::Status> RunSriovManage(const Gpu& gpu,
                                                           const char* action) const;
  void NameTypes(Gpu& gpu) const;

  const NodeSettings settings_;
  vgpu_types::KnownTypes known_types_;
};

// A random UUID (RFC 4122, version 4).
std::string RandomUuid();

}  // namespace pitcrew::node::vgpu

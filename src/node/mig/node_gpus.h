// The GPUs of this node: read, changed, reset. Through NVML where the driver is loaded, else
// through the boards' registers (mig-manager.md sections 2.4, 2.5, 5.1 and 5.2).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/root.h"
#include "node/mig/layout.h"
#include "nvml/nvml.h"

namespace pitcrew::node::mig {

struct NodeSettings {
  host::Root root = host::Root();  // with /sys and /proc
  // Where NVML and nvidia-smi are looked for (nvml::Library::Open). A root that is not "/" is
  // changed into for nvidia-smi.
  std::vector<std::filesystem::path> driver_roots = {"/"};
};

// One thread uses it at a time.
class NodeGpus {
 public:
  explicit NodeGpus(NodeSettings settings);
  ~NodeGpus();
  NodeGpus(const NodeGpus&) = delete;
  NodeGpus& operator=(const NodeGpus&) = delete;

  // By PCI address; those that the loaded driver does not know are left out, a lost one is listed
  // with an unknown mode. Opens NVML when it is not open. Without the kernel module boards are read
  // through their registers. kUnavailable when the module is loaded and NVML does not answer;
  // kCancelled when `stop_fd` (borrowed; -1: none) becomes readable while a board starts.
  base::Result<std::vector<Gpu>> Read(int stop_fd = -1);

  // Whether NVML serves this node: false when the module is not loaded, or NVML is older than 11.
  // Known after Read.
  [[nodiscard]] bool has_driver() const;

  // True: the mode counts now. False: it waits for a reset.
  base::Result<bool> SetMode(const Gpu& gpu, bool enabled);
  // Compute instances, then GPU instances. kConflict "InUse" while a program runs on one.
  base::Status Clear(const Gpu& gpu);
  // Makes the instances of a layout on an empty GPU; `made` is called after each of NVML's changes.
  base::Status Create(const Gpu& gpu, const Layout& layout);
  // Programs that use the GPU, as "python (1234)". Empty when there are none or NVML does not tell.
  base::Result<std::vector<std::string>> Users(const Gpu& gpu);

  // Resets these, and no others: by `nvidia-smi --gpu-reset` with the driver, else through sysfs.
  // NVML is closed before, and opened by the next Read.
  base::Status Reset(const std::vector<Gpu>& gpus);

  // Closes NVML: while it is open some boards cannot change their mode.
  void Close();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::node::mig

#include "node/nfd/host_paths.h"

#include "host/root.h"

namespace pitcrew::node::nfd {

HostPaths HostPaths::Detect() {
  const auto mounted = host::IsDirectory("/host-sys");
  if (!mounted || !*mounted) return Below("/");
  return {"/host-sys", "/host-etc", "/proc", "/host-proc/swaps", kFeaturesFolder};
}

HostPaths HostPaths::Below(const std::filesystem::path& root) {
  const host::Root tree(root);
  return {tree.At("/sys"), tree.At("/etc"), tree.At("/proc"), tree.At("/proc/swaps"),
          tree.At(kFeaturesFolder)};
}

}  // namespace pitcrew::node::nfd

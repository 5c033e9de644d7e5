#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {
namespace {

bool HasInstance(const Features& features, const std::string& feature, const std::string& attribute,
                 std::string_view value) {
  const auto found = features.instances.find(feature);
  if (found == features.instances.end()) return false;
  for (const auto& instance : found->second) {
    const auto element = instance.find(attribute);
    if (element != instance.end() && element->second == value) return true;
  }
  return false;
}

bool HasFlag(const Features& features, const std::string& feature, const std::string& element) {
  const auto found = features.flags.find(feature);
  return found != features.flags.end() && found->second.contains(element);
}

}  // namespace

Discovery DiscoverCustom(const Features& features) {
  Discovery found;
  if (HasInstance(features, "pci.device", "vendor", "15b3")) {
    found.labels["rdma.capable"] = "true";
  }
  if (HasFlag(features, "kernel.loadedmodule", "ib_uverbs") &&
      HasFlag(features, "kernel.loadedmodule", "rdma_ucm")) {
    found.labels["rdma.available"] = "true";
  }
  return found;
}

}  // namespace pitcrew::node::nfd

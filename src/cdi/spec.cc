#include "cdi/spec.h"

namespace pitcrew::cdi {
namespace {

template <class T>
void AppendAll(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void ContainerEdits::Append(const ContainerEdits& other) {
  AppendAll(env, other.env);
  AppendAll(device_nodes, other.device_nodes);
  AppendAll(net_devices, other.net_devices);
  AppendAll(hooks, other.hooks);
  AppendAll(mounts, other.mounts);
  if (other.intel_rdt) intel_rdt = other.intel_rdt;
  AppendAll(additional_gids, other.additional_gids);
}

}  // namespace pitcrew::cdi

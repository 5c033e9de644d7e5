#include "fleet/former_offers.h"

#include <algorithm>
#include <chrono>

#include "api/labels.h"
#include "kubevirt/offers.h"

namespace pitcrew::fleet {
namespace {

// The kubelet's five minutes, and a node status that is told a little later.
constexpr std::chrono::minutes kKubeletRemembers{6};

// What Kata's device plugin calls GPUs and NVSwitches unless it is told otherwise
// (kubevirt-device-plugin.md section 9).
bool IsForKata(std::string_view resource) {
  return resource == "nvidia.com/pgpu" || resource == "nvidia.com/nvswitch";
}

std::int64_t AmountOf(const std::map<std::string, std::int64_t, std::less<>>& resources,
                      std::string_view resource) {
  const auto found = resources.find(resource);
  return found == resources.end() ? 0 : found->second;
}

// Whether a plugin runs here or will again: one that is "paused-for-..." comes back, so that the
// kubelet's zero is no farewell. Unlike kubevirt::RunsPlugin, which asks about now; and unlike
// kubevirt::HasPluginLabel a label "false" says that it does not come back.
bool WillRun(const NodeContext& context, std::string_view label) {
  const std::string_view value = context.node.Label(label);
  return !value.empty() && value != "false";
}

bool HasYoungPlugin(const NodeContext& context) {
  return std::ranges::any_of(context.cluster.operands(), [&](const Operand& operand) {
    if (operand.stage != Stage::kPlugin) return false;
    const Pod* pod = context.PodOf(operand);
    return pod != nullptr && pod->created &&
           context.cluster.now - *pod->created < kKubeletRemembers;
  });
}

}  // namespace

bool IsFormerOffer(const NodeContext& context, std::string_view resource) {
  const Node& node = context.node;
  if (AmountOf(node.capacity, resource) == 0 || AmountOf(node.allocatable, resource) > 0) {
    return false;
  }
  if (kubevirt::IsForContainers(resource)) return !WillRun(context, api::kDeployDevicePlugin);
  if (IsForKata(resource) && !WillRun(context, api::kDeployKataSandboxDevicePlugin)) return true;
  const bool others =
      std::ranges::any_of(node.allocatable, [](const auto& entry) { return entry.second > 0; });
  return others && HasYoungPlugin(context);
}

}  // namespace pitcrew::fleet

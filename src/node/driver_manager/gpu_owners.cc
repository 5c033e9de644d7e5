#include "node/driver_manager/gpu_owners.h"

#include <set>
#include <string>

#include "desired/operand_table.h"
#include "node/own_node/own_node.h"
#include "workload/operand_pods.h"

namespace pitcrew::node::driver_manager {
namespace {

bool IsAskedFor(const codec::Json& node, std::string_view label) {
  return own_node::LabelOf(node, label) == "true";
}

}  // namespace

base::Status AwaitFormerOwners(const Options& options, const std::shared_ptr<kube::Client>& client,
                               const codec::Json& node, const io::StopToken& stop) {
  std::set<std::string, std::less<>> former;  // states
  for (const auto& operand : desired::Operands()) {
    const bool is_client = operand.gpu_client != desired::GpuClient::kNo;
    const bool has_left = is_client && own_node::LabelOf(node, operand.deploy.key).empty();
    const bool is_former = operand.owns_gpus && !IsAskedFor(node, operand.deploy.key);
    if (is_former || has_left) former.emplace(operand.state);
  }
  return workload::AwaitPodsGone(
      client, options.node_name, options.namespace_name,
      [&](const workload::OperandPod& pod) {
        const auto* operand = desired::Operands().OfDaemonSet(pod.daemonset);
        return operand != nullptr && former.contains(operand->state);
      },
      std::chrono::steady_clock::now() + options.owners_timeout, stop);
}

}  // namespace pitcrew::node::driver_manager

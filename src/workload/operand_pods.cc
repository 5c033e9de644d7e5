#include "workload/operand_pods.h"

#include <fmt/format.h>

#include <vector>

#include "api/labels.h"
#include "kube/await.h"
#include "kube/ownership.h"
#include "kube/projection.h"

namespace pitcrew::workload {

using codec::Json;

OperandPod OperandOf(const Json& pod) {
  OperandPod operand{.app = codec::FindString(pod, {"metadata", "labels", api::kAppLabel}),
                     .daemonset = {}};
  if (operand.app.empty()) operand.app = codec::FindString(pod, {"metadata", "labels", "name"});
  const auto owner = kube::ControllerOf(pod);
  if (owner && owner->kind == kube::kDaemonSets.kind) operand.daemonset = owner->name;
  return operand;
}

base::Status AwaitPodsGone(const std::shared_ptr<kube::Client>& client, const std::string& node,
                           const std::string& namespace_name,
                           const std::function<bool(const OperandPod&)>& is_meant,
                           std::chrono::steady_clock::time_point deadline,
                           const io::StopToken& stop) {
  kube::InformerOptions selection;
  selection.namespace_name = namespace_name;
  selection.field_selector = "spec.nodeName=" + node;
  std::vector<std::string> remaining;
  const base::Status gone = kube::Await<OperandPod>(
      client, kube::kPods,
      kube::ProjectJson<OperandPod>(
          [](const Json& pod) -> base::Result<OperandPod> { return OperandOf(pod); }),
      selection,
      [&](const kube::Store<OperandPod>& store) -> base::Result<bool> {
        remaining.clear();
        for (const auto& [key, pod] : store.Snapshot()) {
          if (is_meant(*pod)) remaining.push_back(key.name);
        }
        return remaining.empty();
      },
      stop, deadline);
  if (gone || gone.error().code != base::Code::kTimeout || remaining.empty()) return gone;
  return base::Fail(base::Error{base::Code::kTimeout, "OperandsStillRunning",
                                fmt::format("operands that are to leave did not end in time: {}",
                                            fmt::join(remaining, ", "))});
}

}  // namespace pitcrew::workload

#include "workload/pause.h"

#include <fmt/format.h>

#include "api/labels.h"
#include "base/strings.h"
#include "kube/await.h"
#include "kube/ownership.h"
#include "kube/projection.h"

namespace pitcrew::workload {
namespace {

using codec::Json;

template <class Change>
std::optional<Json> LabelPatch(const Json& node, const std::vector<std::string_view>& labels,
                               Change change) {
  Json changed = Json::object();
  for (const auto label : labels) {
    const auto value = codec::FindString(node, {"metadata", "labels", label});
    if (auto next = change(value); next != value) changed[std::string(label)] = std::move(next);
  }
  if (changed.empty()) return std::nullopt;
  return Json{{"metadata", {{"labels", std::move(changed)}}}};
}

}  // namespace

std::string PausedValue(std::string_view value, std::string_view word) {
  if (value.empty() || value == "false" || value.find(word) != std::string_view::npos) {
    return std::string(value);
  }
  if (value == "true") return std::string(word);
  return fmt::format("{}_{}", value, word);
}

std::string ResumedValue(std::string_view value, std::string_view word) {
  if (value == word) return "true";
  if (value.find(word) == std::string_view::npos) return std::string(value);
  auto rest = base::ReplaceAll(std::string(value), fmt::format("{}_", word), "");
  rest = base::ReplaceAll(std::move(rest), word, "");
  while (rest.ends_with('_')) rest.pop_back();
  while (rest.starts_with('_')) rest.erase(rest.begin());
  return rest;
}

std::optional<Json> PausePatch(const Json& node, const std::vector<std::string_view>& labels,
                               std::string_view word) {
  return LabelPatch(node, labels,
                    [&](const std::string& value) { return PausedValue(value, word); });
}

std::optional<Json> ResumePatch(const Json& node, const std::vector<std::string_view>& labels,
                                std::string_view word) {
  return LabelPatch(node, labels,
                    [&](const std::string& value) { return ResumedValue(value, word); });
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
      kube::ProjectJson<OperandPod>([](const Json& pod) -> base::Result<OperandPod> {
        OperandPod operand{.app = codec::FindString(pod, {"metadata", "labels", api::kAppLabel}),
                           .daemonset = {}};
        if (operand.app.empty())
          operand.app = codec::FindString(pod, {"metadata", "labels", "name"});
        const auto owner = kube::ControllerOf(pod);
        if (owner && owner->kind == kube::kDaemonSets.kind) operand.daemonset = owner->name;
        return operand;
      }),
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

base::Status AwaitOperandsGone(const std::shared_ptr<kube::Client>& client, const std::string& node,
                               const std::string& namespace_name,
                               const std::set<std::string, std::less<>>& apps,
                               std::chrono::steady_clock::time_point deadline,
                               const io::StopToken& stop) {
  return AwaitPodsGone(
      client, node, namespace_name, [&](const OperandPod& pod) { return apps.contains(pod.app); },
      deadline, stop);
}

}  // namespace pitcrew::workload

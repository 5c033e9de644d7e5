#include "workload/pause.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "workload/operand_pods.h"

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

bool HasRunningContainer(const Json& pod) {
  const Json* containers = codec::Find(pod, {"status", "containerStatuses"});
  if (containers == nullptr || !containers->is_array()) return false;
  return std::ranges::any_of(*containers, [](const Json& container) {
    return codec::Find(container, {"state", "running"}) != nullptr;
  });
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

std::vector<std::string_view> PausedLabels(const Json& node,
                                           const std::vector<std::string_view>& labels,
                                           std::string_view word) {
  std::vector<std::string_view> paused;
  for (const auto label : labels) {
    const auto value = codec::FindString(node, {"metadata", "labels", label});
    if (PausedValue(value, word).find(word) != std::string::npos) paused.push_back(label);
  }
  return paused;
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

base::Result<bool> OperandsRun(kube::Client& client, const std::string& node,
                               const std::string& namespace_name,
                               const std::set<std::string, std::less<>>& apps,
                               const io::StopToken& stop) {
  kube::ListOptions of_node;
  of_node.field_selector = "spec.nodeName=" + node;
  TRY_ASSIGN(const auto pods, client.List(kube::kPods, namespace_name, of_node, stop));
  return std::ranges::any_of(pods.items, [&](const Json& pod) {
    return apps.contains(OperandOf(pod).app) && HasRunningContainer(pod);
  });
}

}  // namespace pitcrew::workload

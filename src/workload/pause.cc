#include "workload/pause.h"

#include <fmt/format.h>

#include "api/labels.h"
#include "base/strings.h"
#include "kube/await.h"
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

base::Status AwaitOperandsGone(const std::shared_ptr<kube::Client>& client, const std::string& node,
                               const std::string& namespace_name,
                               const std::set<std::string, std::less<>>& apps,
                               std::chrono::steady_clock::time_point deadline,
                               const io::StopToken& stop) {
  kube::InformerOptions selection;
  selection.namespace_name = namespace_name;
  selection.field_selector = "spec.nodeName=" + node;
  std::vector<std::string> remaining;
  const base::Status gone = kube::Await<std::string>(
      client, kube::kPods,
      kube::ProjectJson<std::string>([](const Json& pod) -> base::Result<std::string> {
        auto app = codec::FindString(pod, {"metadata", "labels", api::kAppLabel});
        if (!app.empty()) return app;
        return codec::FindString(pod, {"metadata", "labels", "name"});
      }),
      selection,
      [&](const kube::Store<std::string>& store) -> base::Result<bool> {
        remaining.clear();
        for (const auto& [key, app] : store.Snapshot()) {
          if (apps.contains(*app)) remaining.push_back(key.name);
        }
        return remaining.empty();
      },
      stop, deadline);
  if (gone || gone.error().code != base::Code::kTimeout || remaining.empty()) return gone;
  return base::Fail(base::Error{
      base::Code::kTimeout, "OperandsStillRunning",
      fmt::format("paused operands did not end in time: {}", fmt::join(remaining, ", "))});
}

}  // namespace pitcrew::workload

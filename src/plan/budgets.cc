#include "plan/budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/strings.h"
#include "codec/json_items.h"
#include "workload/gpu_use.h"

namespace pitcrew::plan {
namespace {

using codec::Json;

std::string ValuesOf(const Json& expression) {
  std::vector<std::string> values;
  for (const Json& value : codec::ItemsAt(expression, {"values"})) {
    if (value.is_string()) values.push_back(value.get<std::string>());
  }
  return base::Join(values, ",");
}

// As text; "" selects all pods.
base::Result<kube::LabelSelector> SelectorOf(const Json& selector) {
  std::vector<std::string> parts;
  if (const Json* labels = codec::Find(selector, {"matchLabels"})) {
    for (const auto& [key, value] : labels->items()) {
      if (!labels->is_object() || !value.is_string()) {
        return base::Fail(base::Invalid(
            "InvalidSelector", "matchLabels: write labels and their values, which are strings"));
      }
      parts.push_back(fmt::format("{}={}", key, value.get<std::string>()));
    }
  }
  for (const Json& expression : codec::ItemsAt(selector, {"matchExpressions"})) {
    const std::string key = codec::FindString(expression, {"key"});
    const std::string what = codec::FindString(expression, {"operator"});
    if (what == "Exists") {
      parts.push_back(key);
    } else if (what == "DoesNotExist") {
      parts.push_back("!" + key);
    } else {
      parts.push_back(fmt::format("{} {} ({})", key, base::ToLower(what), ValuesOf(expression)));
    }
  }
  return kube::LabelSelector::Parse(base::Join(parts, ","));
}

// Nobody counts such a pod as one that serves.
bool CountsForNoBudget(const Json& pod) {
  return workload::HasEnded(pod) || codec::FindString(pod, {"status", "phase"}) == "Pending" ||
         codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
}

// The pod serves nobody, and the budget lets such pods go.
bool LetsUnreadyGo(const Json& budget, const Json& pod) {
  if (workload::IsReady(pod)) return false;
  if (codec::FindString(budget, {"spec", "unhealthyPodEvictionPolicy"}) == "AlwaysAllow") {
    return true;
  }
  const std::int64_t desired = codec::IntegerAt(budget, {"status", "desiredHealthy"});
  return desired > 0 && codec::IntegerAt(budget, {"status", "currentHealthy"}) >= desired;
}

}  // namespace

Budgets::Budgets(const snapshot::Snapshot& snapshot) {
  if (const base::Error* error = snapshot.error(kDisruptionBudgets)) {
    unknown_ = error->message;
    return;
  }
  // A file without any is most likely one that they were left out of.
  if (snapshot.coverage(kDisruptionBudgets) == snapshot::Coverage::kNotMentioned &&
      snapshot.All(kDisruptionBudgets).empty()) {
    unknown_ = fmt::format("{} has no PodDisruptionBudgets", snapshot.origin());
    return;
  }
  for (const auto& [key, object] : snapshot.All(kDisruptionBudgets)) {
    const Json* selector = codec::Find(object, {"spec", "selector"});
    if (selector == nullptr || !selector->is_object()) continue;  // it selects no pod
    auto read = SelectorOf(*selector);
    if (!read) {
      unknown_ = fmt::format("PodDisruptionBudget {}: {}", key.ToString(), read.error().message);
      continue;
    }
    by_namespace_[key.namespace_name].push_back(
        {.name = key.ToString(), .selector = *std::move(read), .object = &object});
  }
}

std::string Budgets::WhyKept(const Json& pod) const {
  const auto found = by_namespace_.find(codec::FindString(pod, {"metadata", "namespace"}));
  if (found == by_namespace_.end() || CountsForNoBudget(pod)) return "";
  std::vector<std::string> names;
  const Json* budget = nullptr;
  for (const Budget& one : found->second) {
    if (!one.selector.Selects(pod)) continue;
    names.push_back(one.name);
    budget = one.object;
  }
  if (names.empty()) return "";
  if (names.size() > 1) {
    return fmt::format("PodDisruptionBudgets {}: a pod with several is never evicted",
                       base::Join(names, ", "));
  }
  if (LetsUnreadyGo(*budget, pod)) return "";
  const bool counted = codec::Find(*budget, {"status", "disruptionsAllowed"}) != nullptr &&
                       codec::IntegerAt(*budget, {"status", "observedGeneration"}) >=
                           codec::IntegerAt(*budget, {"metadata", "generation"});
  if (!counted) {
    return fmt::format("PodDisruptionBudget {} has not been counted yet, and allows no eviction",
                       names.front());
  }
  if (codec::IntegerAt(*budget, {"status", "disruptionsAllowed"}) > 0) return "";
  return fmt::format("PodDisruptionBudget {} allows no eviction now", names.front());
}

}  // namespace pitcrew::plan

#include "desired/removal_budget.h"

#include <algorithm>

namespace pitcrew::desired {

bool IsMassRemoval(std::size_t gpu_nodes, std::size_t losing) {
  return losing > 2 && losing * 10 > gpu_nodes;
}

void RemovalBudget::Spend(const std::string& node, Time now) {
  std::erase_if(losses_, [&](const auto& entry) { return now - entry.second.at >= window_; });
  losses_[node] = {.at = now};
}

void RemovalBudget::Confirm(const std::string& node) {
  if (const auto found = losses_.find(node); found != losses_.end()) {
    found->second.confirmed = true;
  }
}

void RemovalBudget::Return(const std::string& node) { losses_.erase(node); }

std::size_t RemovalBudget::Spent(Time now) const {
  return static_cast<std::size_t>(std::ranges::count_if(losses_, [&](const auto& entry) {
    return entry.second.confirmed && now - entry.second.at < window_;
  }));
}

bool RemovalBudget::Holds(std::size_t gpu_nodes, std::size_t losing, Time now) const {
  const std::size_t spent = Spent(now);
  return losing > 0 && IsMassRemoval(gpu_nodes + spent, losing + spent);
}

std::optional<RemovalBudget::Time> RemovalBudget::NextRelease(Time now) const {
  std::optional<Time> next;
  for (const auto& [node, loss] : losses_) {
    const Time release = loss.at + window_;
    if (release > now && (!next || release < *next)) next = release;
  }
  return next;
}

}  // namespace pitcrew::desired

#include "desired/removal_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "desired/node_labels.h"

namespace pitcrew::desired {
namespace {

bool IsMassRemoval(std::size_t gpu_nodes, std::size_t losing) {
  return losing > 2 && losing * 10 > gpu_nodes;
}

}  // namespace

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

std::string RemovalBudget::WhyHeld(std::size_t gpu_nodes, std::size_t losing, bool allowed,
                                   Time now) const {
  if (allowed || !Holds(gpu_nodes, losing, now)) return "";
  const std::size_t before = Spent(now);
  return fmt::format(
      "{} of {} GPU nodes have lost the PCI labels of node feature discovery{}; their labels are "
      "kept because so many {} point to discovery rather than to GPUs. If the GPUs are really "
      "gone, set the annotation {}=true on the ClusterPolicy",
      losing, gpu_nodes, before == 0 ? "" : fmt::format(", after {} others within an hour", before),
      before == 0 ? "at once" : "in so short a time", kAllowMassRemoval);
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

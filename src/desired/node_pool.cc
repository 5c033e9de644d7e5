#include "desired/node_pool.h"

#include <algorithm>

namespace pitcrew::desired {

bool NodeSelector::Selects(const Node& node) const {
  return std::ranges::all_of(
      labels, [&](const auto& label) { return node.labels.Is(label.first, label.second); });
}

LabelKeys NodeSelector::keys() const {
  LabelKeys keys;
  for (const auto& [key, value] : labels) keys.insert(key);
  return keys;
}

NodeTotals TotalsOf(std::span<const std::shared_ptr<const Node>> nodes,
                    const NodeSelector& selector) {
  NodeTotals totals;
  for (const auto& node : nodes) {
    if (node != nullptr && selector.Selects(*node)) totals.Add(*node);
  }
  return totals;
}

}  // namespace pitcrew::desired

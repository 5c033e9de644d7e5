// Part of the nodes, and the facts about them: what is rendered for a pool depends on its nodes
// alone (reference operator-behaviour.md section 8.2).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "desired/facts.h"
#include "desired/node.h"
#include "desired/node_totals.h"

namespace pitcrew::desired {

// Nodes with all of these labels; no labels: all nodes.
struct NodeSelector {
  std::map<std::string, std::string, std::less<>> labels = {};

  // Whether the node has them, as far as they were kept of it (ReadNode).
  [[nodiscard]] bool Selects(const Node& node) const;
  // What must be kept of the nodes, so that Selects tells the truth.
  [[nodiscard]] LabelKeys keys() const;
};

// What the selected nodes tell together: NodeTotals::Fill puts it into facts.
NodeTotals TotalsOf(std::span<const std::shared_ptr<const Node>> nodes,
                    const NodeSelector& selector);

}  // namespace pitcrew::desired

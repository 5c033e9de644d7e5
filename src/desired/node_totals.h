// What all nodes together tell, kept up to date node by node: a change of one costs the logarithm
// of how many there are, and reading the facts costs as much as there are different systems.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "desired/facts.h"
#include "desired/node.h"
#include "desired/runtime.h"

namespace pitcrew::desired {

// The operating system of a node, as labels of node feature discovery tell it; "" where they do
// not. The texts are interned (Labels) and so live for ever.
struct NodeSystem {
  std::string_view os;
  std::string_view os_version;
  std::string_view kernel;
  std::string_view rhcos;

  auto operator<=>(const NodeSystem&) const = default;
};

// All that one node tells about the cluster. Of two nodes with the same share it does not matter
// which one there is, but for their names.
struct NodeShare {
  bool nfd_labels = false;
  bool gpu = false;                  // nvidia.com/gpu.present=true
  bool joining = false;              // a GPU by its PCI labels, and not labelled yet
  bool losing = false;               // LosesGpu
  std::optional<Runtime> runtime;    // of nodes with a GPU, labelled or not
  std::optional<NodeSystem> system;  // of nodes with gpu

  bool operator==(const NodeShare&) const = default;
};
NodeShare ShareOf(const Node& node);

// For one thread at a time.
class NodeTotals {
 public:
  void Add(const Node& node);
  // `node` as it was added: names and labels decide.
  void Remove(const Node& node);

  [[nodiscard]] std::size_t gpu_nodes() const { return gpu_nodes_; }
  [[nodiscard]] std::size_t losing() const { return losing_; }
  [[nodiscard]] const RuntimeCounts& runtimes() const { return runtimes_; }
  // Sets the part of the facts that nodes tell, and leaves the rest.
  void Fill(Facts& facts) const;

  bool operator==(const NodeTotals&) const = default;

 private:
  std::size_t nfd_nodes_ = 0;
  std::size_t gpu_nodes_ = 0;
  std::size_t joining_ = 0;
  std::size_t losing_ = 0;
  RuntimeCounts runtimes_;  // without zeros
  // Names of the GPU nodes by system, because the first name decides where nodes differ: which node
  // an error is about, and whose operating system is the cluster's.
  std::map<NodeSystem, std::set<std::string>> systems_;
};

}  // namespace pitcrew::desired

// Places of the wave that nodes have been given and that the watch of nodes does not show yet: the
// limits count them, so that no two decisions give the same place away.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "desired/node.h"

namespace pitcrew::gpu_operator {

// Thread-safe.
class Grants {
 public:
  void Give(const std::string& node);
  // The node has a place that it has not used.
  [[nodiscard]] bool Has(const std::string& node) const;
  // It was written, and is of this resourceVersion since: the place is its own until the watch
  // shows that.
  void Use(const std::string& node, std::uint64_t version);
  // It does not need the place, or may not begin any longer. False when it had none, or has used
  // it.
  bool Return(const std::string& node);
  // The node is gone.
  void Forget(const std::string& node);
  // Whether the node has a place that its state, as the watch shows it, does not tell of.
  bool Counts(const desired::Node& node);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::optional<std::uint64_t>> nodes_;  // the version when used
};

}  // namespace pitcrew::gpu_operator

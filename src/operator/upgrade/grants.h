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
  // For that version of its driver; "": for whichever.
  void Give(const std::string& node, const std::string& version = "");
  // The node has a place that it has not used, for that version.
  [[nodiscard]] bool Has(const std::string& node, const std::string& version) const;
  // The node's new state was written, with this resourceVersion: the place counts until the watch
  // shows it.
  void Use(const std::string& node, std::uint64_t version);
  // It does not need the place, or may not begin any longer. False when it had none, or has used
  // it.
  bool Return(const std::string& node);
  // The node is gone.
  void Forget(const std::string& node);
  // Whether the node has a place that its state, as the watch shows it, does not tell of.
  bool Counts(const desired::Node& node);

 private:
  struct Place {
    std::string version;                // of the driver
    std::optional<std::uint64_t> used;  // version of the node when used
  };
  mutable std::mutex mutex_;
  std::map<std::string, Place> nodes_;
};

}  // namespace pitcrew::gpu_operator

// How many nodes may lose the labels of their GPU in a while. A discovery that fails node by node
// looks, at each moment, like a few GPUs that were taken out; only what went before tells.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace pitcrew::desired {

// For one thread at a time. Times are given, so that a test need not wait. A budget from which
// nothing was spent decides about one moment alone.
class RemovalBudget {
 public:
  using Time = base::SteadyClock::time_point;

  explicit RemovalBudget(std::chrono::nanoseconds window = std::chrono::hours(1))
      : window_(window) {}

  // The labels of a node are being taken. Until Confirm it counts among those that are `losing`.
  void Spend(const std::string& node, Time now);
  // The watch has told that they are gone.
  void Confirm(const std::string& node);
  // The node has its GPU, or has kept its labels, or is no part of the cluster any more.
  void Return(const std::string& node);

  // Nodes whose labels went within the window before `now`.
  [[nodiscard]] std::size_t Spent(Time now) const;
  // `losing` of the `gpu_nodes` that still carry their labels would lose them: too many for it to
  // be true, together with those before? Too many are more than two, and more than a tenth.
  [[nodiscard]] bool Holds(std::size_t gpu_nodes, std::size_t losing, Time now) const;
  // What a person is told of removals that are held; "" when none are. `allowed`: a person has said
  // that they are true (kAllowMassRemoval).
  [[nodiscard]] std::string WhyHeld(std::size_t gpu_nodes, std::size_t losing, bool allowed,
                                    Time now) const;
  // When the next node leaves the window; none when none is in it.
  [[nodiscard]] std::optional<Time> NextRelease(Time now) const;

 private:
  struct Loss {
    Time at;
    bool confirmed = false;
  };
  std::chrono::nanoseconds window_;
  std::map<std::string, Loss> losses_;
};

}  // namespace pitcrew::desired

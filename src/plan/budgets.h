// Disruption budgets that would refuse the eviction of a pod, by the rules of the API server as
// they would be followed now: what a budget allows changes while pods leave.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codec/json.h"
#include "kube/resource.h"
#include "kube/selector.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

inline constexpr kube::ResourceKind kDisruptionBudgets{"policy", "v1", "poddisruptionbudgets",
                                                       "PodDisruptionBudget"};

class Budgets {
 public:
  // `snapshot` must outlive this object.
  explicit Budgets(const snapshot::Snapshot& snapshot);

  // Why they are not known; "" when they are.
  [[nodiscard]] const std::string& unknown() const { return unknown_; }
  // Why the pod would not be evicted now, "PodDisruptionBudget ml/trains allows no eviction now";
  // "" where no budget is in the way.
  [[nodiscard]] std::string WhyKept(const codec::Json& pod) const;

 private:
  struct Budget {
    std::string name;
    kube::LabelSelector selector;
    const codec::Json* object = nullptr;  // borrowed
  };
  std::string unknown_;
  std::map<std::string, std::vector<Budget>, std::less<>> by_namespace_;
};

}  // namespace pitcrew::plan

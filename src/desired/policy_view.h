// What is read of a ClusterPolicy object beside its spec.
#pragma once

#include <cstdint>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::desired {

struct PolicyView {
  api::ClusterPolicy policy;
  codec::Json status;         // as stored; null when there is none
  std::uint64_t version = 0;  // resourceVersion
  bool deleting = false;
  bool orphans = false;             // it is being deleted, and its objects are to stay
  bool allow_mass_removal = false;  // annotation kAllowMassRemoval
};
base::Result<PolicyView> ReadPolicyView(const codec::Json& object);
// Of several policies the one that precedes all others is the active one: the oldest, and of
// equally old ones the one whose name comes first.
bool Precedes(const PolicyView& a, const PolicyView& b);

}  // namespace pitcrew::desired

#include "desired/policy_view.h"

#include <algorithm>
#include <tuple>

#include "base/strings.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {

using codec::Json;

base::Result<PolicyView> ReadPolicyView(const Json& object) {
  TRY_ASSIGN(auto policy, api::ReadClusterPolicy(object));
  PolicyView view;
  view.policy = std::move(policy);
  if (const Json* status = codec::Find(object, {"status"})) view.status = *status;
  view.version =
      base::ParseUnsigned(codec::FindString(object, {"metadata", "resourceVersion"})).value_or(0);
  view.deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  if (const Json* finalizers = codec::Find(object, {"metadata", "finalizers"});
      view.deleting && finalizers != nullptr && finalizers->is_array()) {
    view.orphans = std::ranges::find(*finalizers, Json("orphan")) != finalizers->end();
  }
  view.allow_mass_removal =
      codec::FindString(object, {"metadata", "annotations", kAllowMassRemoval}) == "true";
  return view;
}

bool Precedes(const PolicyView& a, const PolicyView& b) {
  const auto age = [](const PolicyView& view) {
    return std::tie(view.policy.creation_timestamp, view.policy.name);
  };
  return age(a) < age(b);
}

}  // namespace pitcrew::desired

#include "desired/owner.h"

#include "api/labels.h"

namespace pitcrew::desired {

Owner Owner::Of(const api::ClusterPolicy& policy) {
  return {.api_version = std::string(api::kNvidiaV1),
          .kind = std::string(api::kClusterPolicyKind),
          .name = policy.name,
          .uid = policy.uid};
}

Owner Owner::Of(const api::NvidiaDriver& driver) {
  return {.api_version = std::string(api::kNvidiaV1Alpha1),
          .kind = std::string(api::kNvidiaDriverKind),
          .name = driver.name,
          .uid = driver.uid};
}

codec::Json Owner::Reference() const {
  return {{"apiVersion", api_version},
          {"kind", kind},
          {"name", name},
          {"uid", uid},
          {"controller", true},
          {"blockOwnerDeletion", true}};
}

}  // namespace pitcrew::desired

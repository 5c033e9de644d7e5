// Owner references: who deletes what with whom.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::kube {

struct OwnerReference {
  std::string api_version{};
  std::string kind{};
  std::string name{};
  std::string uid{};
  bool controller = false;

  bool operator==(const OwnerReference&) const = default;
};

// Makes `owner` (with metadata.name and uid, as the server gave it) the controller of `object`.
// kConflict when another one is; kInvalid when a namespaced owner would own something outside its
// namespace.
base::Status SetControllerReference(codec::Json& object, const codec::Json& owner,
                                    const ResourceKind& owner_kind);
std::optional<OwnerReference> ControllerOf(const codec::Json& object);
bool IsControlledBy(const codec::Json& object, std::string_view owner_uid);

}  // namespace pitcrew::kube

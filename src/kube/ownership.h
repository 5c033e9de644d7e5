// Owner references: who deletes what with whom.
#pragma once

#include <optional>
#include <string>

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

std::optional<OwnerReference> ControllerOf(const codec::Json& object);
bool IsControlledBy(const codec::Json& object, std::string_view owner_uid);

}  // namespace pitcrew::kube

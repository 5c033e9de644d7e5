// The init container k8s-driver-manager, which takes an old driver off the node before a new one
// (or none) takes over (reference operand-manifests.md sections 6.1, 16 and 19).
#pragma once

#include <optional>

#include "desired/operand.h"

namespace pitcrew::desired {

// Image, pull policy when given, resources, environment and pull secrets.
base::Status ApplyDriverManager(Object& daemonset, const api::DriverManager& manager,
                                const std::optional<codec::Json>& resources,
                                const Context& context);

}  // namespace pitcrew::desired

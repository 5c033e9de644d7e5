// What upstream's operator made: how its objects and their fields are known. Its objects carry the
// policy's owner reference and no inventory label, and their fields belong to its update calls
// (reference operator-behaviour.md sections 6 and 14).
#pragma once

#include <optional>
#include <string_view>

#include "codec/json.h"

namespace pitcrew::desired {

// Field manager of upstream's operator: the name of its program.
inline constexpr std::string_view kUpstreamManager = "gpu-operator";

// metadata.managedFields of `object` after its fields of upstream's manager have become ours by
// apply: an apply that no longer mentions them removes them. Nothing when it has none. The same
// idea as client-go's csaupgrade.
std::optional<codec::Json> TakenOverFields(const codec::Json& object);

}  // namespace pitcrew::desired

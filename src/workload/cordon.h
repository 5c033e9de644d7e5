// Keeping new pods off a node, and giving it back only when nobody else did the same: a node that a
// person cordoned stays cordoned (driver-lifecycle.md 12.2, weakness 35). Pure; made for a
// conditional patch (own_node/own_node.h), so that two cannot believe that they were first.
#pragma once

#include <optional>
#include <string_view>

#include "codec/json.h"

namespace pitcrew::workload {

bool IsCordoned(const codec::Json& node);

// The merge patch that cordons a node and notes in `annotation` that this was ours; nothing when it
// is cordoned already, by whomever.
std::optional<codec::Json> CordonPatch(const codec::Json& node, std::string_view annotation);

// The merge patch that takes back the cordon and the note of it; nothing without the note.
std::optional<codec::Json> UncordonPatch(const codec::Json& node, std::string_view annotation);

}  // namespace pitcrew::workload

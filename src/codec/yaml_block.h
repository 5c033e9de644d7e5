// A fast reader of the YAML that Kubernetes' tools print: block style, one value a line. A general
// reader takes a minute for the nodes of a large fleet; this one takes a second.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"

namespace pitcrew::codec {

// The documents of a stream, empty ones dropped, exactly as the general reader gives them; nothing
// when the text has anything that this reader does not know (anchors, tags, flow style with
// content, folded blocks, directives, tabs, keys that stand twice, ...) or that is wrong.
std::optional<std::vector<Json>> ReadBlockYaml(std::string_view text);

// What an unquoted scalar means in YAML 1.2's core schema.
Json PlainYamlScalar(const std::string& text);

}  // namespace pitcrew::codec

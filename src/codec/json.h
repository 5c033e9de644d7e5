// JSON values that Pitcrew builds and edits. Large reads that only need a few fields go through
// simdjson in the room that reads them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

// Compiled once, in json.cc: its members are most of what a file that uses JSON would compile.
extern template class nlohmann::basic_json<>;

namespace pitcrew::codec {

// Object members are sorted by name, so the text of equal values is equal.
using Json = nlohmann::json;

// `source` names the text in the error, for example a file's path; the error tells the position.
base::Result<Json> ParseJson(std::string_view text, std::string_view source = "JSON");

// Compact text; bytes that are not UTF-8 are replaced.
std::string ToJsonText(const Json& value);
std::string ToPrettyJsonText(const Json& value);

// The value at a path of member names, or null when any step is missing or of another kind.
// Borrowed from `value`.
const Json* Find(const Json& value, std::initializer_list<std::string_view> path);
// The text at a path, or `fallback` when it is missing or not text.
std::string FindString(const Json& value, std::initializer_list<std::string_view> path,
                       std::string_view fallback = "");

// RFC 7386: members of `patch` replace those of `target`, null removes.
void ApplyMergePatch(Json& target, const Json& patch);

}  // namespace pitcrew::codec

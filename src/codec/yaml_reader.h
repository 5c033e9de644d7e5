// Values from the events of libyaml's parser.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::codec {

// Line and column (from 1) of values, by their JSON pointers.
using YamlMarks = std::map<std::string, std::pair<int, int>, std::less<>>;

// The documents of a stream that are not null. `marks`, when given, is filled for the last one.
// kInvalid "InvalidYaml" says source, line, column and what is wrong.
base::Result<std::vector<Json>> ReadYamlDocuments(std::string_view text, std::string_view source,
                                                  YamlMarks* marks);

}  // namespace pitcrew::codec

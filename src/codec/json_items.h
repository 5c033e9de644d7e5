// Lists and whole numbers within a JSON value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "codec/json.h"

namespace pitcrew::codec {

// The list at a path of member names; an empty one when it is missing or of another kind. Borrowed
// from `value`.
inline const Json& ItemsAt(const Json& value, std::initializer_list<std::string_view> path) {
  static const Json kNone = Json::array();
  const Json* found = Find(value, path);
  return found != nullptr && found->is_array() ? *found : kNone;
}

// The whole number at a path; 0 when it is missing or of another kind.
inline std::int64_t IntegerAt(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* found = Find(value, path);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace pitcrew::codec

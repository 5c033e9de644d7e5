#include "codec/go_json.h"

#include <fmt/format.h>

namespace pitcrew::codec {

std::string EscapeAsGo(std::string_view json) {
  std::string text;
  text.reserve(json.size() + 64);
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace pitcrew::codec

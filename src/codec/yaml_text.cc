// Apart from what reads: what only reads, the static shim among it, is linked without the library
// that writes.
#include <yaml-cpp/yaml.h>

#include "codec/yaml.h"
#include "codec/yaml_scalar.h"

namespace pitcrew::codec {
namespace {

// Whether a reader would take the unquoted text for something else. That knows the words of
// YAML 1.1.
bool NeedsQuotes(const std::string& text) {
  const auto plain = ResolveYamlScalar(text);
  return !plain || !plain->is_string() || text == "=" || text == "<<";
}

// Characters that a YAML reader takes for the end of a line: NEL, LS and PS of Unicode.
bool HasOtherLineBreaks(const std::string& text) {
  for (const std::string_view line_break : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    if (text.find(line_break) != std::string::npos) return true;
  }
  return false;
}

void Emit(YAML::Emitter& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      if (value.empty()) {
        out << YAML::Flow;
      }
      out << YAML::BeginMap;
      for (const auto& [key, member] : value.items()) {
        out << YAML::Key;
        Emit(out, Json(key));
        out << YAML::Value;
        Emit(out, member);
      }
      out << YAML::EndMap;
      return;
    case Json::value_t::array:
      if (value.empty()) {
        out << YAML::Flow;
      }
      out << YAML::BeginSeq;
      for (const auto& item : value) Emit(out, item);
      out << YAML::EndSeq;
      return;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      if (HasOtherLineBreaks(text)) {
        out << YAML::DoubleQuoted << YAML::EscapeNonAscii << text;
      } else if (text.find('\n') != std::string::npos &&
                 text.find_first_of("\t\r") == std::string::npos && text.back() == '\n' &&
                 !text.starts_with(' ') && !text.starts_with('\n') && !text.ends_with("\n\n")) {
        out << YAML::Literal << text;
      } else if (text.find_first_of("\n\t\r") != std::string::npos || NeedsQuotes(text)) {
        out << YAML::DoubleQuoted << text;
      } else {
        out << text;
      }
      return;
    }
    case Json::value_t::null:
      out << YAML::Null;
      return;
    default:
      out << ToJsonText(value);
      return;
  }
}

}  // namespace

std::string ToYamlText(const Json& value) {
  YAML::Emitter out;
  out.SetIndent(2);
  out.SetNullFormat(YAML::LowerNull);
  Emit(out, value);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace pitcrew::codec

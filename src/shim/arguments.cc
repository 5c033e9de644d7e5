#include "shim/arguments.h"

#include <fmt/format.h>

#include <optional>

namespace pitcrew::shim {
namespace {

struct Flag {
  std::string_view name;  // without dashes; empty when the word is no flag
  std::optional<std::string_view> value;
};

// "--bundle=X" and "-b=X": any number of dashes.
Flag ParseFlag(std::string_view word) {
  if (!word.starts_with('-')) return {};
  const auto name_at = word.find_first_not_of('-');
  if (name_at == std::string_view::npos) return {};
  word.remove_prefix(name_at);
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

bool IsBundle(std::string_view name) { return name == "b" || name == "bundle"; }

}  // namespace

base::Result<Arguments> ParseArguments(const std::vector<std::string_view>& arguments) {
  Arguments parsed;
  std::string_view unfinished;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Flag flag = ParseFlag(arguments[i]);
    const bool has_next = i + 1 < arguments.size();
    if (flag.name.empty()) {
      if (arguments[i] == "create") parsed.is_create = true;
    } else if (IsBundle(flag.name)) {
      if (!flag.value && !has_next) unfinished = arguments[i];
      if (flag.value) parsed.bundle = *flag.value;
      if (!flag.value && has_next) parsed.bundle = arguments[++i];
    } else if (flag.name == "log" || flag.name == "log-format") {
      const std::string value(flag.value ? *flag.value : has_next ? arguments[i + 1] : "");
      if (flag.name == "log") parsed.log_file = value;
      if (flag.name == "log-format") parsed.json_log = value == "json";
      if (!flag.value && has_next) ++i;
    } else if (flag.name == "version") {
      parsed.wants_version = true;
    } else if (flag.name == "debug") {
      parsed.debug = true;
    }
  }
  if (parsed.is_create && !unfinished.empty()) {
    return base::Fail(base::Invalid("MissingBundle", fmt::format("{} needs a value", unfinished)));
  }
  return parsed;
}

}  // namespace pitcrew::shim

#include "cdi/name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ascii.h"
#include "base/strings.h"

namespace pitcrew::cdi {
namespace {

using base::IsDigit;
using base::IsLetter;

bool IsAlphanumeric(char c) { return IsLetter(c) || IsDigit(c); }

base::Status ValidateKindPart(std::string_view what, std::string_view text) {
  const bool valid = !text.empty() && IsLetter(text.front()) && IsAlphanumeric(text.back()) &&
                     std::ranges::all_of(text, [](char c) {
                       return IsAlphanumeric(c) || c == '_' || c == '-' || c == '.';
                     });
  if (valid) return {};
  return base::Fail(base::Invalid(
      "InvalidCdiName",
      fmt::format(
          "CDI {} \"{}\" must begin with a letter, end with a letter or digit and have only "
          "letters, digits, '_', '-' and '.' between",
          what, text)));
}

}  // namespace

std::string QualifiedName::kind() const { return vendor + "/" + device_class; }
std::string QualifiedName::ToString() const { return kind() + "=" + device; }

base::Status ValidateKind(std::string_view kind) {
  const auto slash = kind.find('/');
  if (slash == std::string_view::npos) {
    return base::Fail(
        base::Invalid("InvalidCdiName", fmt::format("CDI kind \"{}\" must be vendor/class", kind)));
  }
  TRY(ValidateKindPart("vendor", kind.substr(0, slash)));
  return ValidateKindPart("class", kind.substr(slash + 1));
}

base::Status ValidateDeviceName(std::string_view name) {
  const bool valid = !name.empty() && IsAlphanumeric(name.front()) && IsAlphanumeric(name.back()) &&
                     std::ranges::all_of(name, [](char c) {
                       return IsAlphanumeric(c) || c == '_' || c == '-' || c == '.' || c == ':';
                     });
  if (valid) return {};
  return base::Fail(base::Invalid(
      "InvalidCdiName",
      fmt::format("CDI device name \"{}\" must begin and end with a letter or digit and have only "
                  "letters, digits, '_', '-', '.' and ':' between",
                  name)));
}

base::Result<QualifiedName> ParseQualifiedName(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    return base::Fail(
        base::Invalid("InvalidCdiName",
                      fmt::format("\"{}\" is no CDI device: vendor/class=name is expected", text)));
  }
  const auto kind = text.substr(0, equals);
  TRY(ValidateKind(kind));
  TRY(ValidateDeviceName(text.substr(equals + 1)));
  const auto slash = kind.find('/');
  return QualifiedName{std::string(kind.substr(0, slash)), std::string(kind.substr(slash + 1)),
                       std::string(text.substr(equals + 1))};
}

bool IsQualifiedName(std::string_view text) { return ParseQualifiedName(text).has_value(); }

std::string SomeNames(std::vector<std::string> names) {
  constexpr std::size_t kMost = 16;
  constexpr std::size_t kLongest = 256;
  const std::size_t all = names.size();
  if (all > kMost) names.resize(kMost);
  for (auto& name : names) {
    if (name.size() > kLongest) name = name.substr(0, kLongest) + "...";
  }
  std::string text = base::Join(names, ", ");
  if (all > kMost) text += fmt::format(" and {} more", all - kMost);
  return text;
}

}  // namespace pitcrew::cdi

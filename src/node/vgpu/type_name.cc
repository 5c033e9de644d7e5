#include "node/vgpu/type_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/ascii.h"
#include "base/strings.h"

namespace pitcrew::node::vgpu {
namespace {

using base::IsDigit;
using base::IsLetter;

bool IsUpper(char letter) { return letter >= 'A' && letter <= 'Z'; }

template <class Matches>
bool IsWordOf(std::string_view text, Matches matches) {
  return !text.empty() && std::ranges::all_of(text, matches);
}

// "20CME": the frame buffer, the series, and what follows.
struct Size {
  int gigabytes = 0;
  char series = 'C';
  std::string_view attribute;
};
std::optional<Size> ParseSize(std::string_view text) {
  const auto digits =
      static_cast<std::size_t>(std::ranges::find_if_not(text, IsDigit) - text.begin());
  if (digits == 0 || digits == text.size() || (digits > 1 && text[0] == '0')) return std::nullopt;
  const auto number = base::ParseUnsigned(text.substr(0, digits));
  if (!number || *number > std::uint64_t{std::numeric_limits<int>::max()}) return std::nullopt;
  const char series = text[digits];
  if (std::string_view("ABCQ").find(series) == std::string_view::npos) return std::nullopt;
  return Size{static_cast<int>(*number), series, text.substr(digits + 1)};
}

std::unexpected<base::Error> Malformed(std::string_view text) {
  return base::Fail(base::Invalid(
      "InvalidVgpuType",
      text.empty() ? std::string("empty vGPU type string")
                   : fmt::format("malformed vGPU type string '{}'; names are like A100-5C, or "
                                 "A100-1-5C for one in a MIG GPU instance",
                                 text)));
}

}  // namespace

base::Result<TypeName> TypeName::Parse(std::string_view text) {
  const auto parts = base::Split(text, '-');
  if (parts.size() < 2) return Malformed(text);
  const auto size = ParseSize(parts.back());
  const auto is_of_gpu = [](char letter) { return IsUpper(letter) || IsDigit(letter); };
  if (!size || !IsWordOf(parts.front(), is_of_gpu)) return Malformed(text);
  TypeName name;
  name.gigabytes = size->gigabytes;
  name.series = size->series;
  name.gpu = parts.front();
  if (parts.size() == 3 && parts[1].size() == 1 && parts[1][0] >= '1' && parts[1][0] <= '9') {
    constexpr std::array<std::string_view, 5> kAttributes = {"", "ME", "NOME", "MEALL", "GFX"};
    if (std::ranges::find(kAttributes, size->attribute) == kAttributes.end())
      return Malformed(text);
    name.slices = parts[1][0] - '0';
    name.attribute = size->attribute;
    return name;
  }
  if (!size->attribute.empty()) return Malformed(text);
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    if (!IsWordOf(parts[i], IsLetter)) return Malformed(text);
    name.gpu += fmt::format("-{}", parts[i]);
  }
  return name;
}

std::string TypeName::MigProfile() const {
  std::string_view suffix;
  if (attribute == "ME") suffix = "+me";
  if (attribute == "NOME") suffix = "-me";
  if (attribute == "MEALL") suffix = "+me.all";
  if (attribute == "GFX") suffix = "+gfx";
  return fmt::format("{}g.{}gb{}", slices.value_or(0), gigabytes, suffix);
}

std::string WithoutAttribute(std::string_view type) {
  for (const std::string_view attribute : {"MEALL", "NOME", "ME", "GFX"}) {
    if (type.ends_with(attribute)) {
      return std::string(type.substr(0, type.size() - attribute.size()));
    }
  }
  return std::string(type);
}

std::string NameOfTitle(std::string_view title) {
  const auto trimmed = base::Trim(title);
  const auto space = trimmed.find_last_of(' ');
  return std::string(space == std::string_view::npos ? trimmed : trimmed.substr(space + 1));
}

}  // namespace pitcrew::node::vgpu

#include "host/os_release.h"

#include <cctype>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

bool IsKey(std::string_view key) {
  if (key.empty()) return false;
  for (const char c : key) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

std::string Unquote(std::string_view value) {
  while (!value.empty() && (value.front() == '"' || value.front() == '\'')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == '"' || value.back() == '\'')) value.remove_suffix(1);
  return std::string(value);
}

}  // namespace

std::string OsRelease::Get(const std::string& key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? "" : found->second;
}

OsRelease ParseOsRelease(std::string_view text) {
  OsRelease release;
  for (const auto& line : base::Split(text, '\n')) {
    const auto trimmed = base::Trim(line);
    const auto equals = trimmed.find('=');
    if (equals == std::string_view::npos || !IsKey(trimmed.substr(0, equals))) continue;
    const auto value = Unquote(trimmed.substr(equals + 1));
    if (!value.empty()) release.fields[std::string(trimmed.substr(0, equals))] = value;
  }
  return release;
}

base::Result<OsRelease> ReadOsRelease(const std::filesystem::path& file) {
  TRY_ASSIGN(const std::string text, base::ReadFile(file));
  return ParseOsRelease(text);
}

}  // namespace pitcrew::host

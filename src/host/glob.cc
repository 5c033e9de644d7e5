#include "host/glob.h"

#include <fnmatch.h>

#include <filesystem>
#include <span>

#include "base/strings.h"

namespace pitcrew::host {
namespace {

using PathParts = std::span<const std::string>;

bool HasWildcard(std::string_view part) {
  return part.find_first_of("*?[\\") != std::string_view::npos;
}

base::Status Expand(const Root& root, const std::string& folder, PathParts parts,
                    std::vector<std::string>& found);

base::Status Descend(const Root& root, const std::filesystem::path& real, const std::string& inside,
                     PathParts rest, std::vector<std::string>& found) {
  if (!rest.empty()) return Expand(root, inside, rest, found);
  TRY_ASSIGN(const bool exists, Exists(real));
  if (exists) found.push_back(inside);
  return {};
}

base::Status Expand(const Root& root, const std::string& folder, PathParts parts,
                    std::vector<std::string>& found) {
  const auto real = root.Resolve(folder);
  if (!real) return {};
  TRY_ASSIGN(const bool is_folder, IsDirectory(*real));
  if (!is_folder) return {};
  const std::string& part = parts.front();
  const PathParts rest = parts.subspan(1);
  if (!HasWildcard(part)) return Descend(root, *real / part, folder + "/" + part, rest, found);
  TRY_ASSIGN(const auto names, ListFolder(*real));
  for (const auto& name : names) {
    if (!FitsName(part, name)) continue;
    TRY(Descend(root, *real / name, folder + "/" + name, rest, found));
  }
  return {};
}

}  // namespace

base::Result<std::vector<std::string>> Glob(const Root& root, std::string_view pattern) {
  const auto normal = std::filesystem::path("/" + std::string(pattern)).lexically_normal();
  const auto parts = base::SplitTrimmed(normal.string(), '/');
  std::vector<std::string> found;
  if (!parts.empty()) TRY(Expand(root, "", parts, found));
  return found;
}

base::Result<std::vector<std::string>> NamesIn(const Root& root, const std::string& folder) {
  const auto real = root.Resolve(folder);
  if (!real) return std::vector<std::string>{};
  auto names = ListFolder(*real);
  if (!names && names.error().code == base::Code::kNotFound) return std::vector<std::string>{};
  return names;
}

bool FitsName(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool FitsPattern(const std::string& pattern, const std::string& path) {
  if (pattern.starts_with("**/")) {
    const std::string name = path.substr(path.rfind('/') + 1);
    return ::fnmatch(pattern.c_str() + 3, name.c_str(), FNM_PATHNAME) == 0;
  }
  return ::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) == 0;
}

}  // namespace pitcrew::host

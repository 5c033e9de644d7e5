#include "desired/host_path.h"

#include <filesystem>

namespace pitcrew::desired {

std::string CleanPath(std::string_view path) {
  std::string clean = std::filesystem::path(path).lexically_normal().string();
  while (clean.size() > 1 && clean.ends_with('/')) clean.pop_back();
  return clean.empty() ? "." : clean;
}

std::string JoinPath(std::string_view base, std::string_view rest) {
  if (base.empty()) return CleanPath(rest);
  return CleanPath(std::string(base) + "/" + std::string(rest));
}

std::string FolderOf(std::string_view path) {
  const auto slash = path.rfind('/');
  return CleanPath(slash == std::string_view::npos ? "" : path.substr(0, slash + 1));
}

std::string FileNameOf(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.empty()) return ".";
  if (path == "/") return "/";
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace pitcrew::desired

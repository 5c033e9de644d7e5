#include "host/library_search.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/ld_cache.h"
#include "base/log.h"
#include "host/driver_root.h"
#include "host/glob.h"

namespace pitcrew::host {
namespace {

constexpr int kLongestChain = 40;  // as the kernel's own limit (path_resolution(7))

// The low byte says what a library is linked with, the next one for which machine it is.
bool Is64Bit(std::int32_t flags) {
  constexpr std::int32_t kX86 = 0x0300;
  constexpr std::int32_t kArm = 0x0a00;
  constexpr std::int32_t kPower = 0x0500;
  const std::int32_t machine = flags & 0xff00;
  return (flags & 1) != 0 && (machine == kX86 || machine == kArm || machine == kPower);
}

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// What names of the same library have in common.
std::string_view StemOf(std::string_view pattern) {
  const auto so = pattern.find(".so");
  return pattern.substr(0, std::min(so, pattern.find_first_of("*?[")));
}

// Whether the path, or what it leads to over links, has a name that fits.
bool FitsOnTheWay(const Root& root, std::filesystem::path path, const std::string& pattern) {
  for (int i = 0; i < kLongestChain; ++i) {
    if (FitsName(pattern, path.filename().string())) return true;
    const auto folder = root.Resolve(path.parent_path().string());
    if (!folder) return false;
    const auto target = ReadLink(*folder / path.filename());
    if (!target) return false;
    path = (path.parent_path() / *target).lexically_normal();
  }
  return false;
}

}  // namespace

LibrarySearch::LibrarySearch(Root root, std::vector<std::string> folders)
    : root_(std::move(root)), folders_(std::move(folders)), uses_cache_(folders_.empty()) {
  if (uses_cache_) folders_.assign(LibraryFolders().begin(), LibraryFolders().end());
}

base::Result<std::vector<std::filesystem::path>> LibrarySearch::Find(const std::string& pattern) {
  std::vector<std::filesystem::path> found;
  for (const auto& folder : folders_) {
    TRY_ASSIGN(const auto names, NamesIn(root_, folder));
    for (const auto& name : names) {
      if (!FitsName(pattern, name)) continue;
      auto file = root_.Resolve(folder + "/" + name);
      std::error_code ignored;
      if (!file || !std::filesystem::is_regular_file(*file, ignored)) continue;
      if (std::ranges::find(found, *file) == found.end()) found.push_back(*std::move(file));
    }
  }
  return found.empty() ? FindInCache(pattern) : found;
}

std::vector<std::filesystem::path> LibrarySearch::FindInCache(const std::string& pattern) {
  std::vector<std::filesystem::path> found;
  if (!uses_cache_) return found;
  for (const auto& library : Cache()) {
    if (!NameOf(library).starts_with(StemOf(pattern))) continue;
    if (!FitsOnTheWay(root_, library, pattern)) continue;
    auto file = root_.Resolve(library);
    std::error_code ignored;
    if (!file || !std::filesystem::is_regular_file(*file, ignored)) continue;
    if (std::ranges::find(found, *file) == found.end()) found.push_back(*std::move(file));
  }
  return found;
}

const std::vector<std::string>& LibrarySearch::Cache() {
  if (cache_) return *cache_;
  cache_.emplace();
  const auto path = root_.Resolve("/etc/ld.so.cache");
  if (!path) return *cache_;
  const auto bytes = base::ReadFile(*path);
  auto parsed =
      bytes ? base::ParseLdCache(*bytes) : base::Result<base::LdCache>(base::Fail(bytes.error()));
  if (!parsed) {
    base::LogWarning("The loader's cache of the driver's root is not heard", parsed.error());
    return *cache_;
  }
  for (auto& entry : parsed->entries) {
    if (Is64Bit(entry.flags)) cache_->push_back(std::move(entry.path));
  }
  return *cache_;
}

base::Result<std::filesystem::path> FindDriverLibrary(const Root& root,
                                                      std::string_view file_name) {
  auto found = FindLibrary(root, file_name);
  if (found) return found;
  auto cached = LibrarySearch(root).FindInCache(std::string(file_name));
  if (cached.empty()) return found;
  return std::move(cached.front());
}

}  // namespace pitcrew::host

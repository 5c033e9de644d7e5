#include "host/root.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <memory>

#include "base/strings.h"

namespace pitcrew::host {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's own limit (path_resolution(7))

// The parts of a path in order, without "" and ".".
std::deque<std::string> Parts(std::string_view path) {
  std::deque<std::string> parts;
  for (auto& part : base::Split(path, '/')) {
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  return parts;
}

std::filesystem::path Normalised(std::filesystem::path path) {
  if (path.empty()) return "/";
  path = path.lexically_normal();
  if (!path.has_filename() && path.has_parent_path() && path != path.root_path()) {
    path = path.parent_path();
  }
  return path;
}

}  // namespace

Root::Root(std::filesystem::path path) : path_(Normalised(std::move(path))) {}

std::filesystem::path Root::At(std::string_view inside) const {
  while (!inside.empty() && inside.front() == '/') inside.remove_prefix(1);
  return inside.empty() ? path_ : path_ / inside;
}

base::Result<std::filesystem::path> Root::Strip(const std::filesystem::path& outside) const {
  const auto relative = outside.lexically_normal().lexically_relative(path_);
  if (relative.empty() || *relative.begin() == "..") {
    return base::Fail(
        base::Invalid("PathOutsideRoot",
                      fmt::format("{} does not lie under {}", outside.string(), path_.string())));
  }
  return relative == "." ? std::filesystem::path("/") : "/" / relative;
}

base::Result<std::filesystem::path> Root::Resolve(std::string_view inside) const {
  std::deque<std::string> todo = Parts(inside);
  std::vector<std::string> done;
  const auto here = [&] {
    auto path = path_;
    for (const auto& part : done) path /= part;
    return path;
  };
  int links = 0;
  while (!todo.empty()) {
    const std::string part = std::move(todo.front());
    todo.pop_front();
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    const auto path = here();
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) {
      return base::Fail(base::FromErrno(errno, fmt::format("look at {}", path.string())));
    }
    if (!S_ISLNK(info.st_mode)) continue;
    if (++links > kMostLinks) {
      return base::Fail(
          base::Invalid("TooManyLinks", fmt::format("too many links at {}", path.string())));
    }
    TRY_ASSIGN(const std::string target, ReadLink(path));
    done.pop_back();
    if (target.starts_with('/')) done.clear();
    auto parts = Parts(target);
    todo.insert(todo.begin(), parts.begin(), parts.end());
  }
  return here();
}

base::Result<bool> Exists(const std::filesystem::path& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return base::Fail(base::FromErrno(errno, fmt::format("look at {}", path.string())));
}

base::Result<bool> IsDirectory(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return S_ISDIR(info.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return base::Fail(base::FromErrno(errno, fmt::format("look at {}", path.string())));
}

base::Result<std::vector<std::string>> ListFolder(const std::filesystem::path& folder) {
  const auto close = [](DIR* stream) { ::closedir(stream); };
  const std::unique_ptr<DIR, decltype(close)> stream(::opendir(folder.c_str()), close);
  if (!stream) return base::Fail(base::FromErrno(errno, fmt::format("open {}", folder.string())));
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) {
    return base::Fail(base::FromErrno(errno, fmt::format("list {}", folder.string())));
  }
  std::ranges::sort(names);
  return names;
}

base::Result<std::string> ReadLink(const std::filesystem::path& link) {
  std::array<char, PATH_MAX> buffer;
  const ssize_t length = ::readlink(link.c_str(), buffer.data(), buffer.size());
  if (length < 0)
    return base::Fail(base::FromErrno(errno, fmt::format("read link {}", link.string())));
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

}  // namespace pitcrew::host

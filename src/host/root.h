// A file tree seen from a place that is not always "/": the host at /host, a driver at
// /driver-root, a test's temporary folder. Whatever reads the node takes a Root or a folder, never
// a fixed path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::host {

class Root {
 public:
  // `path` is where the tree is mounted for this process.
  explicit Root(std::filesystem::path path = "/");

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // True for "/": programs and libraries of this root can be used without chroot or prefix.
  [[nodiscard]] bool is_own() const { return path_ == "/"; }

  // Root("/host").At("/usr/bin") is /host/usr/bin. Only joins: links are not followed.
  [[nodiscard]] std::filesystem::path At(std::string_view inside) const;
  // The other way round: /host/usr/bin becomes /usr/bin. kInvalid when `outside` lies elsewhere.
  [[nodiscard]] base::Result<std::filesystem::path> Strip(
      const std::filesystem::path& outside) const;

  // Follows every link as a process whose root directory this is would: absolute links start at
  // this root and ".." never leaves it. Returns the path as this process sees it, with the root in
  // front. kNotFound when a part is missing, kInvalid on a loop of links.
  [[nodiscard]] base::Result<std::filesystem::path> Resolve(std::string_view inside) const;

  bool operator==(const Root&) const = default;

 private:
  std::filesystem::path path_;
};

// Whether something (a broken link counts) lies at `path`. An unreadable folder on the way is an
// error, not "no".
base::Result<bool> Exists(const std::filesystem::path& path);
// Whether a directory (links followed) lies at `path`.
base::Result<bool> IsDirectory(const std::filesystem::path& path);
// Names of the entries of a folder, sorted by bytes. kNotFound when the folder is missing.
base::Result<std::vector<std::string>> ListFolder(const std::filesystem::path& folder);
// Where a link points, as written in it. kNotFound when missing, kInvalid when it is not a link.
base::Result<std::string> ReadLink(const std::filesystem::path& link);

}  // namespace pitcrew::host

#include "host/selinux.h"

#include <fmt/format.h>
#include <sys/xattr.h>

#include <cerrno>
#include <system_error>

#include "host/root.h"

namespace pitcrew::host {
namespace {

constexpr const char* kAttribute = "security.selinux";

base::Status Label(const std::filesystem::path& path, std::string_view label) {
  if (::lsetxattr(path.c_str(), kAttribute, label.data(), label.size(), 0) == 0) return {};
  if (errno == ENOENT) return {};
  return base::Fail(base::FromErrno(errno, fmt::format("label {} as {}", path.string(), label)));
}

}  // namespace

base::Result<bool> HasSelinux(const std::filesystem::path& sys) {
  return Exists(sys / "fs/selinux");
}

base::Status Relabel(const std::filesystem::path& folder, std::string_view label) {
  TRY(Label(folder, label));
  std::error_code problem;
  const auto end = std::filesystem::recursive_directory_iterator();
  for (auto entry = std::filesystem::recursive_directory_iterator(folder, problem);
       !problem && entry != end; entry.increment(problem)) {
    TRY(Label(entry->path(), label));
  }
  if (!problem || problem == std::errc::no_such_file_or_directory) return {};
  return base::Fail(base::FromErrno(problem.value(), fmt::format("list {}", folder.string())));
}

}  // namespace pitcrew::host

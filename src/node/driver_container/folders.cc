#include "node/driver_container/folders.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>

#include "host/root.h"

namespace pitcrew::node::driver_container {

namespace fs = std::filesystem;

base::Status MakeFolders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "make " + folder.string())))
               : base::Status();
}

base::Result<fs::path> MakeTemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "nvidia-driver-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return base::Fail(base::FromErrno(errno, "make " + name));
  return fs::path(name);
}

base::Status CopyOver(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy(from, to,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing |
               fs::copy_options::copy_symlinks,
           error);
  if (!error) return {};
  return base::Fail(
      base::FromErrno(error.value(), fmt::format("copy {} to {}", from.string(), to.string())));
}

base::Result<std::vector<fs::path>> FilesThatEndWith(const fs::path& folder,
                                                     std::string_view ending) {
  TRY_ASSIGN(const auto names, host::ListFolder(folder));
  std::vector<fs::path> files;
  for (const auto& name : names) {
    if (name.ends_with(ending)) files.push_back(folder / name);
  }
  return files;
}

base::Status Link(const fs::path& target, const fs::path& link) {
  std::error_code error;
  if (fs::is_symlink(link, error) && fs::read_symlink(link, error) == target) return {};
  TRY(MakeFolders(link.parent_path()));
  fs::remove(link, error);
  fs::create_symlink(target, link, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "link " + link.string())))
               : base::Status();
}

}  // namespace pitcrew::node::driver_container

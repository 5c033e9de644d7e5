#include "node/validations/mig_change.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::validations {
namespace {

std::filesystem::path FollowerFile(const StatusFolder& folder, std::string_view app) {
  return folder.path() / kMigFollowers / app;
}

}  // namespace

base::Status AnnounceMigChange(const StatusFolder& folder, const GpuUuids& changing) {
  std::string text;
  for (const auto& uuid : changing) text += uuid + "\n";
  return folder.Write(kMigChange, text);
}

base::Result<GpuUuids> ReadMigChange(const StatusFolder& folder) {
  const auto text = base::ReadFile(folder.path() / kMigChange);
  if (!text && text.error().code == base::Code::kNotFound) return GpuUuids();
  if (!text) return base::Fail(text.error());
  const auto lines = base::SplitTrimmed(*text, '\n');
  return GpuUuids(lines.begin(), lines.end());
}

base::Result<bool> IsMigFollowed(const StatusFolder& folder, std::string_view app) {
  const auto path = FollowerFile(folder, app);
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return false;
    return base::Fail(base::FromErrno(errno, "open " + path.string()));
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  return base::Fail(base::FromErrno(errno, "look at the lock on " + path.string()));
}

base::Result<MigFollower> MigFollower::Register(StatusFolder folder, std::string_view app) {
  const auto path = FollowerFile(folder, app);
  std::error_code error;
  // Not the folder of validations itself: without one nobody announces anything.
  std::filesystem::create_directory(path.parent_path(), error);
  if (error) {
    return base::Fail(base::FromErrno(error.value(), "make folder " + path.parent_path().string()));
  }
  base::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) return base::Fail(base::FromErrno(errno, "open " + path.string()));
  // Shared: a pod that ends and its successor may overlap. The MIG manager holds its own only for
  // the instant of a look, so this does not block for long.
  if (::flock(file.get(), LOCK_SH) != 0) {
    return base::Fail(base::FromErrno(errno, "lock " + path.string()));
  }
  MigFollower follower(std::move(folder), std::move(file));
  TRY(follower.Refresh());
  return follower;
}

base::Status MigFollower::Refresh() {
  TRY_ASSIGN(changing_, ReadMigChange(folder_));
  return {};
}

}  // namespace pitcrew::node::validations

#include "host/mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

constexpr const char* kMountInfo = "/proc/self/mountinfo";

// Mount points are written with \040 for a space and so on (proc(5)).
std::string Unescape(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(i + 1) && is_octal(i + 2) &&
        is_octal(i + 3)) {
      result.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                         (text[i + 3] - '0')));
      i += 3;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

}  // namespace

base::Result<MountWatcher> MountWatcher::Create() {
  base::FileDescriptor table(::open(kMountInfo, O_RDONLY | O_CLOEXEC));
  if (!table.valid()) return base::Fail(base::FromErrno(errno, fmt::format("open {}", kMountInfo)));
  // The table is always readable; a change is an exceptional condition, which epoll can single out.
  base::FileDescriptor events(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLPRI;
  if (!events.valid() || ::epoll_ctl(events.get(), EPOLL_CTL_ADD, table.get(), &event) != 0) {
    return base::Fail(base::FromErrno(errno, fmt::format("watch {}", kMountInfo)));
  }
  return MountWatcher(std::move(table), std::move(events));
}

void MountWatcher::Take() {
  epoll_event event{};
  [[maybe_unused]] const int changed = ::epoll_wait(events_.get(), &event, 1, 0);
}

std::vector<std::filesystem::path> MountPointsBelow(std::string_view mountinfo,
                                                    const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  const auto prefix = folder.string() + "/";
  for (const auto& line : base::Split(mountinfo, '\n')) {
    constexpr std::size_t kMountPointField = 4;
    const auto fields = base::Split(line, ' ');
    if (fields.size() <= kMountPointField) continue;
    auto point = Unescape(fields[kMountPointField]);
    if (point == folder.string() || point.starts_with(prefix)) found.emplace_back(std::move(point));
  }
  // Later mounts lie over or in earlier ones.
  std::ranges::reverse(found);
  return found;
}

base::Status DetachMounts(const std::filesystem::path& folder) {
  TRY_ASSIGN(const auto table, base::ReadFile(kMountInfo));
  for (const auto& point : MountPointsBelow(table, folder)) {
    // EINVAL: it went away meanwhile, perhaps together with a mount above it.
    if (::umount2(point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL &&
        errno != ENOENT) {
      return base::Fail(base::FromErrno(errno, fmt::format("detach mount {}", point.string())));
    }
  }
  return {};
}

base::Status ShowOwnRootAt(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  TRY(DetachMounts(folder));
  // Fails where /sys is no mount point of its own: then nothing is to be kept out.
  (void)::mount(nullptr, "/sys", nullptr, MS_UNBINDABLE | MS_REC, nullptr);
  (void)::mount(nullptr, "/sys", nullptr, MS_PRIVATE, nullptr);
  if (::mount("/", folder.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0) return {};
  return base::Fail(base::FromErrno(errno, fmt::format("show / at {}", folder.string())));
}

base::Status MountTmpfs(const std::filesystem::path& folder, const std::string& source,
                        const std::string& options) {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RELATIME;
  if (::mount(source.c_str(), folder.c_str(), "tmpfs", kFlags, options.c_str()) == 0) return {};
  return base::Fail(base::FromErrno(errno, fmt::format("mount tmpfs at {}", folder.string())));
}

}  // namespace pitcrew::host

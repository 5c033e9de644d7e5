#include "shim/container_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>

#include "base/strings.h"

namespace pitcrew::shim {
namespace {

base::FileDescriptor OpenInRoot(int root, std::string_view inside, std::uint64_t flags,
                                std::uint64_t resolve = 0) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve;
  const std::string path(inside.empty() ? "." : inside);
  for (;;) {
    const long fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how));
    // EAGAIN: something was renamed during the look-up; the kernel asks to try again.
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
      return base::FileDescriptor(static_cast<int>(fd));
  }
}

base::Error Problem(std::string_view action, std::string_view inside) {
  return base::FromErrno(errno, fmt::format("{} {} of the container", action, inside));
}

// A volume that others may see too, the host among them.
base::Error OnAnotherMount(std::string_view inside) {
  return {
      base::Code::kDenied, "OnAnotherMount",
      fmt::format("{} of the container lies on a volume that is mounted there; hooks write only "
                  "to the container's own files",
                  inside)};
}

// Whether the kernel makes up what is read there.
bool IsMadeUp(int fd) {
  static constexpr std::uint32_t kKinds[] = {
      PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,        TRACEFS_MAGIC,
      SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,  BPF_FS_MAGIC,
      SELINUX_MAGIC,    SMACK_MAGIC,        DEVPTS_SUPER_MAGIC,   PSTOREFS_MAGIC,
      EFIVARFS_MAGIC,   NSFS_MAGIC,         RDTGROUP_SUPER_MAGIC, 0x62656570 /*configfs*/};
  struct statfs info{};
  // One that cannot be asked is not trusted either.
  return ::fstatfs(fd, &info) != 0 ||
         std::ranges::find(kKinds, static_cast<std::uint32_t>(info.f_type)) != std::end(kKinds);
}

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Runtimes mount a tmpfs there; anything else at /dev is a volume.
bool IsOfTheRuntime(int dev) {
  struct statfs info{};
  return ::fstatfs(dev, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

// A node or folder that the runtime made in the container's own /dev; kDenied for one that a volume
// brings, and in a /dev that is a volume or the host's.
base::Result<base::FileDescriptor> FindInOwnDev(int root, std::string_view inside) {
  constexpr std::string_view kDev = "/dev/";
  if (!inside.starts_with(kDev)) return base::Fail(OnAnotherMount(inside));
  const auto dev = OpenInRoot(root, kDev, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
  struct stat own{};
  struct stat host{};
  if (!dev.valid() || ::fstat(dev.get(), &own) != 0) return base::Fail(Problem("look at", kDev));
  const bool is_hosts = ::stat("/dev", &host) == 0 && own.st_dev == host.st_dev;
  if (is_hosts || !IsOfTheRuntime(dev.get())) {
    return base::Fail(OnAnotherMount(inside));
  }
  auto found = OpenInRoot(dev.get(), inside.substr(kDev.size()), O_PATH,
                          RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  if (found.valid()) return found;
  if (errno == EXDEV || errno == ELOOP) return base::Fail(OnAnotherMount(inside));
  return base::Fail(Problem("look at", inside));
}

std::string Joined(const std::vector<std::string>& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) path += "/" + parts[i];
  return path.empty() ? "/" : path;
}

// "/a//b/." to "a", "b". ".." stays: the kernel resolves it inside the root.
std::vector<std::string> Parts(std::string_view path) {
  std::vector<std::string> parts;
  for (auto& part : base::Split(path, '/')) {
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  return parts;
}

struct Place {
  std::string folder;
  std::string name;
};

base::Result<Place> Split(std::string_view inside) {
  const auto parts = Parts(inside);
  if (parts.empty() || parts.back() == "..") {
    return base::Fail(base::Invalid("InvalidPath", fmt::format("\"{}\" names no file", inside)));
  }
  return Place{Joined(parts, parts.size() - 1), parts.back()};
}

base::Result<std::string> LinkTarget(int folder, const char* name) {
  std::array<char, PATH_MAX> buffer;
  const ssize_t length = ::readlinkat(folder, name, buffer.data(), buffer.size());
  if (length < 0) return base::Fail(base::FromErrno(errno, fmt::format("read link {}", name)));
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

base::Error NotARegularFile(std::string_view inside, std::string_view what) {
  return base::Invalid("NotARegularFile", fmt::format("{} of the container is {}", inside, what));
}

// The device of what `found` has found, if it is a regular file.
base::Result<dev_t> DeviceOfFile(const base::FileDescriptor& found, std::string_view inside) {
  struct stat info{};
  if (::fstat(found.get(), &info) != 0) return base::Fail(Problem("look at", inside));
  if (!S_ISREG(info.st_mode)) return base::Fail(NotARegularFile(inside, "no file"));
  return info.st_dev;
}

// The very object that was looked at, by its name in /proc/self/fd (`place`): no second look-up.
base::Result<base::FileDescriptor> OpenFound(int place, const char* name, std::string_view inside) {
  base::FileDescriptor file(::openat(place, name, O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) return base::Fail(Problem("open", inside));
  return file;
}

// An entry whose kind the file system does not tell in its list.
bool IsLink(int folder, const char* name) {
  struct stat info{};
  return ::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

}  // namespace

std::string FdPath(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

base::Result<std::string> ReadContainerState() {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  std::string content;
  std::array<char, 8192> buffer;
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::Fail(base::FromErrno(errno, "read the container's state"));
    if (count == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(count));
    if (content.size() > kMost) {
      return base::Fail(base::Invalid("StateTooLarge", "the container's state has no end"));
    }
  }
}

std::string RandomName() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    number = static_cast<std::uint64_t>(::getpid());
  }
  return fmt::format("{:016x}", number);
}

base::Result<ContainerRoot> ContainerRoot::Open(const std::filesystem::path& path) {
  const auto refused = [&](std::string_view why) {
    return base::Fail(
        base::Invalid("InvalidContainerRoot",
                      fmt::format("\"{}\" cannot be a container's root: {}", path.string(), why)));
  };
  constexpr std::string_view kHost = "hooks do not work on the host";
  if (path.empty() || path.lexically_normal() == "/") return refused(kHost);
  // "link/" and "link/." would be followed.
  std::string last = path.string();
  while (last.ends_with('/') || last.ends_with("/.")) last.pop_back();
  base::FileDescriptor root(::open(last.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (!root.valid() || ::fstat(root.get(), &info) != 0) {
    return base::Fail(base::FromErrno(errno, "open the container's root " + path.string()));
  }
  if (S_ISLNK(info.st_mode)) return refused("it is a link; name the folder that it leads to");
  if (!S_ISDIR(info.st_mode)) return refused("it is no folder");
  // Also by another name, or mounted elsewhere.
  struct stat host{};
  if (::stat("/", &host) != 0 || IsSameFile(info, host)) return refused(kHost);
  return ContainerRoot(std::move(root));
}

base::Result<base::FileDescriptor> ContainerRoot::Find(std::string_view inside) const {
  auto found = OpenInRoot(root_.get(), inside, O_PATH);
  if (!found.valid()) return base::Fail(Problem("look at", inside));
  return found;
}

base::Result<base::FileDescriptor> ContainerRoot::FindWithoutLinks(std::string_view inside) const {
  auto found = OpenInRoot(root_.get(), inside, O_PATH, RESOLVE_NO_SYMLINKS);
  if (!found.valid()) return base::Fail(Problem("look at", inside));
  return found;
}

base::Result<bool> ContainerRoot::Exists(std::string_view inside) const {
  const auto found = Find(inside);
  if (found) return true;
  if (found.error().code == base::Code::kNotFound) return false;
  return base::Fail(found.error());
}

base::Result<base::FileDescriptor> ContainerRoot::OpenFile(std::string_view inside) const {
  TRY_ASSIGN(const auto found, Find(inside));
  TRY(DeviceOfFile(found, inside));
  if (IsMadeUp(found.get())) return base::Fail(NotARegularFile(inside, "made by the kernel"));
  return OpenFound(AT_FDCWD, FdPath(found.get()).c_str(), inside);
}

base::Result<std::string> ContainerRoot::ReadFile(std::string_view inside,
                                                  std::size_t limit) const {
  TRY_ASSIGN(const auto file, OpenFile(inside));
  std::string content;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) return content;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::Fail(Problem("read", inside));
    content.append(buffer.data(), static_cast<std::size_t>(count));
    if (content.size() > limit) {
      return base::Fail(
          base::Invalid("FileTooLarge", fmt::format("{} of the container is too large", inside)));
    }
  }
}

base::Result<ContainerFolder> ContainerRoot::OpenFolder(std::string_view inside) const {
  auto folder = OpenInRoot(root_.get(), inside, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  if (!folder.valid()) {
    if (errno == ENOTDIR) errno = ENOENT;
    return base::Fail(Problem("list", inside));
  }
  return ContainerFolder(std::move(folder), std::string(inside));
}

base::Result<std::vector<std::string>> ContainerRoot::List(std::string_view inside) const {
  std::vector<std::string> names;
  auto folder = OpenFolder(inside);
  if (!folder && folder.error().code == base::Code::kNotFound) return names;
  if (!folder) return base::Fail(folder.error());
  TRY_ASSIGN(const auto entries, folder->List());
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

base::Result<std::vector<ContainerFolder::Entry>> ContainerFolder::List() {
  // What getdents64 gives; glibc's own way to it takes four calls more.
  struct Record {
    std::uint64_t number;
    std::int64_t offset;
    std::uint16_t size;
    std::uint8_t kind;
    char name[1];
  };
  names_.clear();
  std::array<char, 32768> buffer;  // of which only what is used costs memory
  for (;;) {
    const long count = ::syscall(SYS_getdents64, folder_.get(), buffer.data(), buffer.size());
    // ENOENT: the folder itself has been removed, and is still mounted or open.
    if (count == 0 || (count < 0 && errno == ENOENT)) break;
    if (count < 0) return base::Fail(Problem("list", inside_));
    names_.insert(names_.end(), buffer.data(), buffer.data() + count);
  }
  std::vector<Entry> entries;
  for (std::size_t at = 0; at < names_.size();) {
    const auto* record = reinterpret_cast<const Record*>(names_.data() + at);
    const char* text = names_.data() + at + offsetof(Record, name);
    at += record->size;
    const std::string_view name = text;
    if (name == "." || name == ".." || name.find('/') != name.npos) continue;
    entries.push_back(
        {name, record->kind == DT_UNKNOWN ? IsLink(folder_.get(), text) : record->kind == DT_LNK});
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

base::Result<base::FileDescriptor> ContainerFolder::OpenFile(const std::string& name) {
  base::FileDescriptor found(
      ::openat(folder_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const std::string inside = inside_ + "/" + name;
  if (!found.valid()) return base::Fail(Problem("look at", inside));
  TRY_ASSIGN(const dev_t device, DeviceOfFile(found, inside));
  const bool holds_files = std::ranges::find(holding_files_, device, [](const auto& one) {
                             return one.first;
                           }) != holding_files_.end();
  if (!holds_files && IsMadeUp(found.get())) {
    return base::Fail(NotARegularFile(inside, "made by the kernel"));
  }
  if (!own_files_.valid()) {
    own_files_ = base::FileDescriptor(::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!own_files_.valid()) return base::Fail(base::FromErrno(errno, "open /proc/self/fd"));
  }
  auto file = OpenFound(own_files_.get(), std::to_string(found.get()).c_str(), inside);
  constexpr std::size_t kMostHeld = 8;
  if (!holds_files && holding_files_.size() < kMostHeld) {
    holding_files_.emplace_back(device, std::move(found));
  }
  return file;
}

base::Result<std::string> ContainerFolder::ReadLink(const std::string& name) const {
  return LinkTarget(folder_.get(), name.c_str());
}

base::Result<std::string> ContainerRoot::ReadLink(std::string_view inside) const {
  TRY_ASSIGN(const Place place, Split(inside));
  TRY_ASSIGN(const auto folder, Find(place.folder));
  return LinkTarget(folder.get(), place.name.c_str());
}

base::Result<std::string> ContainerRoot::Resolve(std::string_view inside) const {
  TRY_ASSIGN(const auto found, Find(inside));
  TRY_ASSIGN(const std::string path, LinkTarget(AT_FDCWD, FdPath(found.get()).c_str()));
  TRY_ASSIGN(const std::string root, LinkTarget(AT_FDCWD, FdPath(root_.get()).c_str()));
  if (path == root) return std::string("/");
  if (root == "/" || !path.starts_with(root + "/")) {
    return base::Fail(
        base::Invalid("PathOutsideRoot", fmt::format("{} moved out of the root", inside)));
  }
  return path.substr(root.size());
}

base::Result<base::FileDescriptor> ContainerRoot::MakeFolder(std::string_view inside) const {
  // Nearly always all of it is there.
  auto whole = OpenInRoot(root_.get(), inside, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV);
  if (whole.valid()) return whole;
  const auto parts = Parts(inside);
  TRY_ASSIGN(auto folder, Find("/"));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string path = Joined(parts, i + 1);
    auto next = OpenInRoot(root_.get(), path, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV);
    if (!next.valid() && errno == EXDEV) return base::Fail(OnAnotherMount(path));
    if (!next.valid() && errno == ENOENT) {
      // EEXIST here means a link that leads to nothing: not ours to fill in.
      if (::mkdirat(folder.get(), parts[i].c_str(), 0755) != 0) {
        return base::Fail(Problem("make folder", path));
      }
      next = OpenInRoot(root_.get(), path, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV);
    }
    if (!next.valid()) return base::Fail(Problem("open folder", path));
    folder = std::move(next);
  }
  return folder;
}

base::Status ContainerRoot::WriteFile(std::string_view inside, std::string_view content,
                                      mode_t mode) const {
  TRY_ASSIGN(const Place place, Split(inside));
  TRY_ASSIGN(const auto folder, MakeFolder(place.folder));
  const std::string temporary = "." + place.name + "." + RandomName();
  const base::FileDescriptor file(::openat(
      folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return base::Fail(Problem("write", inside));
  const auto give_up = [&]() -> base::Status {
    const auto problem = Problem("write", inside);
    ::unlinkat(folder.get(), temporary.c_str(), 0);
    return base::Fail(problem);
  };
  while (!content.empty()) {
    const ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return give_up();
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fchmod(file.get(), mode) != 0) return give_up();
  if (::renameat(folder.get(), temporary.c_str(), folder.get(), place.name.c_str()) != 0) {
    return give_up();
  }
  return {};
}

base::Status ContainerRoot::ChangeMode(std::string_view inside, mode_t mode) const {
  auto found = OpenInRoot(root_.get(), inside, O_PATH, RESOLVE_NO_XDEV);
  if (!found.valid() && errno == EXDEV) {
    auto in_dev = FindInOwnDev(root_.get(), inside);
    if (!in_dev && in_dev.error().code == base::Code::kNotFound) return {};
    if (!in_dev) return base::Fail(in_dev.error());
    found = *std::move(in_dev);
  }
  if (!found.valid()) {
    return errno == ENOENT ? base::Status{} : base::Fail(Problem("look at", inside));
  }
  struct stat info{};
  if (::fstat(found.get(), &info) == 0 && (info.st_mode & 07777) == mode) return {};
  // A handle opened with O_PATH can only be changed through its name in /proc.
  if (::chmod(FdPath(found.get()).c_str(), mode) == 0) return {};
  return base::Fail(Problem("change the mode of", inside));
}

base::Status ContainerRoot::SetLink(std::string_view inside, const std::string& target) const {
  TRY_ASSIGN(const Place place, Split(inside));
  TRY_ASSIGN(const auto folder, MakeFolder(place.folder));
  const auto existing = LinkTarget(folder.get(), place.name.c_str());
  if (existing && *existing == target) return {};
  const std::string temporary = "." + place.name + "." + RandomName();
  if (::symlinkat(target.c_str(), folder.get(), temporary.c_str()) != 0) {
    return base::Fail(Problem("make link", inside));
  }
  if (::renameat(folder.get(), temporary.c_str(), folder.get(), place.name.c_str()) != 0) {
    const auto problem = Problem("make link", inside);
    ::unlinkat(folder.get(), temporary.c_str(), 0);
    return base::Fail(problem);
  }
  return {};
}

}  // namespace pitcrew::shim

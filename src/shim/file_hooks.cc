// Hooks that make links, set modes and write small files.
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fcntl.h>
#include <cerrno>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "shim/cdi_hook.h"

namespace pitcrew::shim {
namespace {

constexpr const char* kParams = "/proc/driver/nvidia/params";
constexpr unsigned kNvidiaMajorMinors = 64;  // a profile's mask has 64 bits

base::Error MountProblem(std::string_view action) {
  return base::FromErrno(errno, fmt::format("{} for {}", action, kParams));
}

// A detached tmpfs with one read-only file, which no path of the container leads to: nothing is
// left behind in its tree.
base::Result<base::FileDescriptor> MakeDetachedFile(std::string_view content) {
  const base::FileDescriptor context(
      static_cast<int>(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
  if (!context.valid()) return base::Fail(MountProblem("open a tmpfs"));
  if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, "size", "64k", 0) != 0 ||
      ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return base::Fail(MountProblem("make a tmpfs"));
  }
  const base::FileDescriptor mount(
      static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)));
  if (!mount.valid()) return base::Fail(MountProblem("mount a tmpfs"));
  const base::FileDescriptor file(
      ::openat(mount.get(), "nvct-params", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  if (!file.valid()) return base::Fail(MountProblem("make a file"));
  if (::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      ::fchmod(file.get(), 0444) != 0) {
    return base::Fail(MountProblem("write a file"));
  }
  base::FileDescriptor clone(static_cast<int>(
      ::syscall(SYS_open_tree, mount.get(), "nvct-params", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!clone.valid()) return base::Fail(MountProblem("clone a file"));
  mount_attr attributes{};
  attributes.attr_set =
      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  // Kernels before 5.12 cannot; the file's mode and the read-only proc still protect it.
  ::syscall(SYS_mount_setattr, clone.get(), "", AT_EMPTY_PATH, &attributes, sizeof(attributes));
  return clone;
}

// An image without a mounted /proc could have a link there, to a volume that the host shares: what
// is mounted over it would be seen on the host.
base::Result<base::FileDescriptor> FindParams(const ContainerRoot& root) {
  TRY_ASSIGN(const auto proc, root.FindWithoutLinks("/proc"));
  struct statfs info{};
  if (::fstatfs(proc.get(), &info) != 0 || info.f_type != PROC_SUPER_MAGIC) {
    return base::Fail(
        base::Error{base::Code::kDenied, "NotProc",
                    "/proc of the container is no proc file system; mount one there"});
  }
  return root.FindWithoutLinks(kParams);
}

}  // namespace

base::Status CreateSymlinks(const ContainerRoot& root, const std::vector<std::string>& links) {
  for (const auto& link : links) {
    const auto at = link.find("::");
    if (at == std::string::npos || link.find("::", at + 2) != std::string::npos) {
      return base::Fail(
          base::Invalid("BadUsage", fmt::format("--link \"{}\" must be target::link", link)));
    }
    TRY(root.SetLink(link.substr(at + 2), link.substr(0, at)));
  }
  return {};
}

base::Status ChangeModes(const ContainerRoot& root, mode_t mode,
                         const std::vector<std::string>& paths) {
  std::string problems;
  for (const auto& path : paths) {
    const auto changed = root.ChangeMode(path, mode);
    // What the hook may not change stays as it is, as with upstream's.
    if (changed || changed.error().code == base::Code::kDenied) continue;
    problems += changed.error().message + "; ";
  }
  if (problems.empty()) return {};
  return base::Fail(base::Internal("ChangeModeFailed", problems.substr(0, problems.size() - 2)));
}

std::string WithoutDeviceModification(std::string_view params) {
  std::string changed;
  bool found = false;
  for (const auto& line : base::Split(params, '\n')) {
    if (line == "ModifyDeviceFiles: 0") return {};
    const bool matches = line == "ModifyDeviceFiles: 1";
    found = found || matches;
    changed += (matches ? "ModifyDeviceFiles: 0" : line) + "\n";
  }
  if (!found) return {};
  if (params.ends_with('\n')) changed.pop_back();
  return changed;
}

base::Status DisableDeviceNodeModification(const ContainerRoot& root) {
  const auto params = base::ReadFile(kParams);
  if (!params && params.error().code == base::Code::kNotFound) return {};
  if (!params) return base::Fail(params.error());
  const std::string content = WithoutDeviceModification(*params);
  if (content.empty()) return {};
  TRY_ASSIGN(const auto target, FindParams(root));
  TRY_ASSIGN(const auto file, MakeDetachedFile(content));
  if (::syscall(SYS_move_mount, file.get(), "", target.get(), "",
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return base::Fail(MountProblem("put a file in place"));
  }
  return {};
}

std::string ApplicationProfile(const std::vector<unsigned>& minors) {
  std::uint64_t mask = 0;
  for (const auto minor_number : minors) mask |= std::uint64_t{1} << minor_number;
  return fmt::format(
      "{{\"profiles\":[{{\"name\":\"_container_\",\"settings\":[\"EGLVisibleDGPUDevices\",0x{:x}]}}"
      "],"
      "\"rules\":[{{\"pattern\":[],\"profile\":\"_container_\"}}]}}",
      mask);
}

base::Status UpdateApplicationProfile(const ContainerRoot& root) {
  TRY_ASSIGN(const auto names, root.List("/dev"));
  std::vector<unsigned> minors;
  for (const auto& name : names) {
    if (!name.starts_with("nvidia") || !base::ParseUnsigned(std::string_view(name).substr(6)))
      continue;
    const auto node = root.Find("/dev/" + name);
    struct stat info{};
    if (!node || ::fstat(node->get(), &info) != 0 || !S_ISCHR(info.st_mode)) continue;
    const unsigned minor_number = ::gnu_dev_minor(info.st_rdev);
    if (minor_number < kNvidiaMajorMinors) minors.push_back(minor_number);
  }
  if (minors.empty()) return {};
  // Folders that are made for it are read-only; others stay as they are.
  const std::string folder = "/etc/nvidia/nvidia-application-profiles-rc.d";
  std::vector<std::string> made;
  for (const std::string& path : {folder, std::string("/etc/nvidia")}) {
    TRY_ASSIGN(const bool exists, root.Exists(path));
    if (!exists) made.push_back(path);
  }
  TRY(root.WriteFile(folder + "/10-container.conf", ApplicationProfile(minors), 0444));
  return ChangeModes(root, 0555, made);
}

}  // namespace pitcrew::shim

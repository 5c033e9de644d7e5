#include "host/device_users.h"

#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;

// What `link` leads to, when it is one of the devices; "" otherwise. Only names below /dev are
// followed: looking at a file of a dead network file system would hang.
std::string OpenedDevice(const fs::path& link, const DeviceNumbers& devices) {
  const auto target = ReadLink(link);
  if (!target || !target->starts_with("/dev/")) return "";
  struct stat info{};
  if (::stat(link.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) return "";
  return devices.contains(info.st_rdev) ? *target : "";
}

base::Result<std::optional<DeviceUser>> LookInto(pid_t pid, const fs::path& folder,
                                                 const DeviceNumbers& devices) {
  const auto numbers = ListFolder(folder / "fd");
  if (!numbers) {
    TRY_ASSIGN(const bool runs, IsDirectory(folder));
    if (!runs || numbers.error().code == base::Code::kNotFound) return std::nullopt;
    return base::Fail(numbers.error().Within("look for users of GPUs"));
  }
  DeviceUser user;
  for (const auto& number : *numbers) {
    const auto link = folder / "fd" / number;
    const auto device = OpenedDevice(link, devices);
    if (device.empty()) continue;
    user.links.push_back(link);
    if (std::ranges::find(user.files, device) == user.files.end()) user.files.push_back(device);
  }
  if (user.files.empty()) return std::nullopt;
  std::ranges::sort(user.files);
  user.pid = pid;
  user.program = std::string(base::Trim(base::ReadFile(folder / "comm").value_or("?")));
  return user;
}

}  // namespace

base::Result<dev_t> ReadDeviceNumber(const fs::path& attribute) {
  TRY_ASSIGN(const auto text, ReadAttribute(attribute));
  const auto parts = base::Split(text, ':');
  if (parts.size() == 2) {
    const auto major = base::ParseUnsigned(parts[0]);
    const auto minor = base::ParseUnsigned(parts[1]);
    if (major && minor && *major <= 0xfff && *minor <= 0xfffff) {
      return ::makedev(static_cast<unsigned>(*major), static_cast<unsigned>(*minor));
    }
  }
  return base::Fail(base::Invalid(
      "MalformedDeviceNumber",
      fmt::format("{} holds \"{}\", not a device's numbers", attribute.string(), text)));
}

std::string DeviceUser::ToString() const { return fmt::format("{} (process {})", program, pid); }

base::Result<std::vector<DeviceUser>> FindDeviceUsers(const DeviceNumbers& devices,
                                                      const fs::path& proc) {
  std::vector<DeviceUser> users;
  if (devices.empty()) return users;
  TRY_ASSIGN(const auto names, ListFolder(proc));
  for (const auto& name : names) {
    const auto pid = base::ParseUnsigned(name);
    if (!pid) continue;
    TRY_ASSIGN(auto user, LookInto(static_cast<pid_t>(*pid), proc / name, devices));
    if (user) users.push_back(*std::move(user));
  }
  std::ranges::sort(users, {}, &DeviceUser::pid);
  return users;
}

base::Result<DeviceUserWatcher> DeviceUserWatcher::Create() {
  base::FileDescriptor events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!events.valid()) return base::Fail(base::FromErrno(errno, "watch device nodes"));
  return DeviceUserWatcher(std::move(events));
}

void DeviceUserWatcher::Watch(const std::vector<DeviceUser>& users) {
  for (const auto& user : users) {
    // The link leads to the very node that is open, in whichever mount namespace. One that is gone
    // needs no watch.
    for (const auto& link : user.links) {
      ::inotify_add_watch(events_.get(), link.c_str(), IN_CLOSE);
    }
  }
}

void DeviceUserWatcher::Take() {
  alignas(inotify_event) std::array<char, 4096> buffer;
  ssize_t size = 0;
  do {
    size = ::read(events_.get(), buffer.data(), buffer.size());
  } while (size > 0 || (size < 0 && errno == EINTR));
}

}  // namespace pitcrew::host

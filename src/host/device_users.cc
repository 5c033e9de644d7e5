#include "host/device_users.h"

#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;

// Whether a file that a process has open is meant: `link` in its folder of descriptors, and where
// that leads.
using IsMeant = std::function<bool(const fs::path& link, const std::string& target)>;

base::Result<std::optional<DeviceUser>> LookInto(pid_t pid, const fs::path& folder,
                                                 const IsMeant& is_meant) {
  const auto numbers = ListFolder(folder / "fd");
  if (!numbers) {
    TRY_ASSIGN(const bool runs, IsDirectory(folder));
    if (!runs || numbers.error().code == base::Code::kNotFound) return std::nullopt;
    return base::Fail(base::Error{base::Code::kDenied, "ProcessesHidden",
                                  fmt::format("cannot see which processes use devices ({}): {}",
                                              folder.string(), numbers.error().message)});
  }
  DeviceUser user;
  for (const auto& number : *numbers) {
    const auto link = folder / "fd" / number;
    const auto target = ReadLink(link);
    // Only names below /dev are followed: looking at a file of a dead network file system would
    // hang.
    if (!target || !target->starts_with("/dev/") || !is_meant(link, *target)) continue;
    user.links.push_back(link);
    if (std::ranges::find(user.files, *target) == user.files.end()) user.files.push_back(*target);
  }
  if (user.files.empty()) return std::nullopt;
  std::ranges::sort(user.files);
  user.pid = pid;
  user.program = std::string(base::Trim(base::ReadFile(folder / "comm").value_or("?")));
  user.machine = GuestName(base::ReadFile(folder / "cmdline").value_or(""));
  return user;
}

// Of all processes, by number.
base::Result<std::vector<DeviceUser>> FindUsers(const fs::path& proc, const IsMeant& is_meant) {
  std::vector<DeviceUser> users;
  TRY_ASSIGN(const auto names, ListFolder(proc));
  for (const auto& name : names) {
    const auto pid = base::ParseUnsigned(name);
    if (!pid) continue;
    TRY_ASSIGN(auto user, LookInto(static_cast<pid_t>(*pid), proc / name, is_meant));
    if (user) users.push_back(*std::move(user));
  }
  std::ranges::sort(users, {}, &DeviceUser::pid);
  return users;
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

std::string DeviceUser::ToString() const {
  const auto& name = program.empty() ? std::string("a program") : program;
  if (machine.empty()) return fmt::format("{} (process {})", name, pid);
  return fmt::format("{} (process {}, virtual machine {})", name, pid, machine);
}

base::Result<std::vector<DeviceUser>> FindDeviceUsers(const DeviceNumbers& devices,
                                                      const fs::path& proc) {
  if (devices.empty()) return std::vector<DeviceUser>();
  return FindUsers(proc, [&](const fs::path& link, const std::string& /*target*/) {
    struct stat info{};
    return ::stat(link.c_str(), &info) == 0 && S_ISCHR(info.st_mode) &&
           devices.contains(info.st_rdev);
  });
}

base::Result<std::map<std::string, std::vector<DeviceUser>>> ListVfioUsers(const fs::path& proc) {
  constexpr std::string_view kFolder = "/dev/vfio/";
  // Every user of groups has the container node, too.
  constexpr std::string_view kContainer = "/dev/vfio/vfio";
  TRY_ASSIGN(const auto users, FindUsers(proc, [&](const fs::path&, const std::string& target) {
               return target.starts_with(kFolder) && target != kContainer;
             }));
  std::map<std::string, std::vector<DeviceUser>> by_node;
  for (const auto& user : users) {
    for (const auto& file : user.files) by_node[file.substr(kFolder.size())].push_back(user);
  }
  return by_node;
}

std::string GuestName(std::string_view command_line) {
  const auto words = base::Split(command_line, '\0');
  const auto option = std::ranges::find(words, "-name");
  if (option == words.end() || option + 1 == words.end()) return "";
  for (const auto& part : base::Split(*(option + 1), ',')) {
    if (part.starts_with("guest=")) return part.substr(6);
  }
  const auto first = base::Split(*(option + 1), ',').front();
  return first.find('=') == std::string::npos ? first : "";
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

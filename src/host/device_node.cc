#include "host/device_node.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/log.h"
#include "base/strings.h"
#include "host/root.h"

namespace pitcrew::host {
namespace {

base::Error Describe(int error_number, std::string_view action, const std::filesystem::path& path) {
  return base::FromErrno(error_number, fmt::format("{} {}", action, path.string()));
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsNvidiaNode(std::string_view name) {
  constexpr std::array<std::string_view, 4> kControl = {"nvidiactl", "nvidia-modeset", "nvidia-uvm",
                                                        "nvidia-uvm-tools"};
  if (std::ranges::find(kControl, name) != kControl.end()) return true;
  return name.starts_with("nvidia") && IsNumber(name.substr(6));
}

base::Status AppendDevices(const std::filesystem::path& folder, std::string_view prefix,
                           bool (*wanted)(std::string_view), std::vector<NamedDevice>& devices) {
  TRY_ASSIGN(const auto names, ListFolder(folder));
  for (const auto& name : names) {
    if (!wanted(name)) continue;
    const auto number = ReadCharacterDevice(folder / name);
    if (number.is_unknown()) {
      base::LogWarning("Left out something that is not a readable character device",
                       *number.error());
    }
    if (number.is_present())
      devices.push_back({fmt::format("{}{}", prefix, name), *number.value()});
  }
  return {};
}

}  // namespace

std::string DeviceNumber::ToString() const { return fmt::format("{}:{}", major, minor); }

base::Observed<DeviceNumber> ReadCharacterDevice(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return base::Observed<DeviceNumber>::From(base::Fail(Describe(errno, "look at", path)));
  }
  if (!S_ISCHR(info.st_mode)) {
    return base::Observed<DeviceNumber>::Unknown(base::Invalid(
        "NotACharacterDevice", fmt::format("{} is not a character device", path.string())));
  }
  return base::Observed<DeviceNumber>::Present(
      {::gnu_dev_major(info.st_rdev), ::gnu_dev_minor(info.st_rdev)});
}

base::Status EnsureCharacterDevice(const std::filesystem::path& path, DeviceNumber number,
                                   mode_t mode) {
  struct stat info{};
  const dev_t device = ::gnu_dev_makedev(number.major, number.minor);
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISCHR(info.st_mode)) {
      return base::Fail(base::Error{
          base::Code::kExists, "NotACharacterDevice",
          fmt::format("{} exists and is not a character device; remove it", path.string())});
    }
    if (info.st_rdev == device) return {};
  } else if (errno != ENOENT) {
    return base::Fail(Describe(errno, "look at", path));
  }
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return base::Fail(Describe(error.value(), "make folder", path.parent_path()));
  // Made beside and renamed, so that nobody finds the name missing while a wrong node is replaced.
  const auto fresh =
      path.parent_path() / fmt::format(".{}.{}", path.filename().string(), ::getpid());
  if (::mknod(fresh.c_str(), S_IFCHR | mode, device) != 0) {
    return base::Fail(Describe(errno, "make device", path));
  }
  if (::chmod(fresh.c_str(), mode) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(fresh.c_str());
    return base::Fail(Describe(saved, "make device", path));
  }
  return {};
}

base::Result<std::vector<NamedDevice>> NvidiaControlDevices(
    const std::map<std::string, std::uint32_t>& majors) {
  auto gpu = majors.find("nvidia");
  if (gpu == majors.end()) gpu = majors.find("nvidia-frontend");
  const auto uvm = majors.find("nvidia-uvm");
  if (gpu == majors.end() || uvm == majors.end()) {
    return base::Fail(base::NotFound(
        "MissingDeviceMajor",
        fmt::format("/proc/devices has no major for {}: its kernel module is not loaded",
                    gpu == majors.end() ? "nvidia" : "nvidia-uvm")));
  }
  return std::vector<NamedDevice>{{"nvidiactl", {gpu->second, 255}},
                                  {"nvidia-modeset", {gpu->second, 254}},
                                  {"nvidia-uvm", {uvm->second, 0}},
                                  {"nvidia-uvm-tools", {uvm->second, 1}}};
}

base::Result<std::vector<NamedDevice>> ListNvidiaDevices(const std::filesystem::path& dev) {
  std::vector<NamedDevice> devices;
  TRY(AppendDevices(dev, "", IsNvidiaNode, devices));
  const auto caps = AppendDevices(
      dev / "nvidia-caps", "nvidia-caps/",
      [](std::string_view name) {
        return name.starts_with("nvidia-cap") && IsNumber(name.substr(10));
      },
      devices);
  if (!caps && caps.error().code != base::Code::kNotFound) return base::Fail(caps.error());
  std::ranges::sort(devices, {}, &NamedDevice::name);
  return devices;
}

}  // namespace pitcrew::host

#include "node/vfio/users.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/iommu.h"
#include "host/kernel.h"
#include "node/vfio/preflight.h"

namespace pitcrew::node::vfio {
namespace {

namespace fs = std::filesystem;
using host::DeviceNumbers;
using host::PciDevice;

// The number in attribute "dev"; a node that is not there has none.
base::Status AddNumber(const fs::path& folder, DeviceNumbers& numbers) {
  const auto number = host::ReadDeviceNumber(folder / "dev");
  if (number) {
    numbers.insert(*number);
    return {};
  }
  if (number.error().code == base::Code::kNotFound) return {};
  return base::Fail(number.error());
}

base::Status AddNumbersBelow(const fs::path& folder, DeviceNumbers& numbers) {
  const auto names = host::ListFolder(folder);
  if (!names && names.error().code == base::Code::kNotFound) return {};
  TRY(names);
  for (const auto& name : *names) TRY(AddNumber(folder / name, numbers));
  return {};
}

// /dev/nvidia<minor>, which the driver tells in a file of its own.
base::Status AddNvidiaNumber(const Settings& settings, const PciDevice& function,
                             DeviceNumbers& numbers) {
  const auto text = base::ReadFile(settings.root.At("/proc/driver/nvidia/gpus") /
                                   function.address.SysfsName() / "information");
  if (!text && text.error().code == base::Code::kNotFound) return {};
  TRY(text);
  constexpr std::string_view kKey = "Device Minor:";
  for (const auto& line : base::Split(*text, '\n')) {
    if (!line.starts_with(kKey)) continue;
    TRY_ASSIGN(const auto minor,
               base::ParseUnsigned(base::Trim(std::string_view(line).substr(kKey.size()))));
    TRY_ASSIGN(const auto majors, host::ReadCharacterMajors(settings.root.At("/proc")));
    for (const char* name : {"nvidia", "nvidia-frontend"}) {
      const auto major = majors.find(name);
      if (major == majors.end()) continue;
      numbers.insert(::makedev(major->second, static_cast<unsigned>(minor)));
    }
  }
  return {};
}

}  // namespace

base::Result<DeviceNumbers> DeviceNumbersOf(const Settings& settings,
                                            const std::vector<PciDevice>& functions) {
  DeviceNumbers numbers;
  const auto groups = settings.root.At("/sys/class/vfio");
  for (const auto& function : functions) {
    if (const auto* group = function.iommu_group.value()) {
      TRY(AddNumber(groups / std::to_string(*group), numbers));
    }
    TRY(AddNumbersBelow(function.folder / "vfio-dev", numbers));
    TRY(AddNumbersBelow(function.folder / "drm", numbers));
    TRY(AddNvidiaNumber(settings, function, numbers));
  }
  return numbers;
}

base::Result<std::vector<host::DeviceUser>> FindUsers(const Settings& settings,
                                                      const std::vector<PciDevice>& functions) {
  TRY_ASSIGN(const auto numbers, DeviceNumbersOf(settings, functions));
  return host::FindDeviceUsers(numbers, settings.processes());
}

std::string NamesOf(const std::vector<host::DeviceUser>& users) {
  std::vector<std::string> names;
  names.reserve(users.size());
  for (const auto& user : users) names.push_back(user.ToString());
  return base::Join(names, ", ");
}

base::Status AwaitUnused(const Settings& settings, const std::vector<PciDevice>& functions,
                         const std::string& name, base::Deadline deadline,
                         const io::StopToken& stop) {
  std::optional<host::DeviceUserWatcher> watcher;
  std::string told;
  while (true) {
    TRY_ASSIGN(auto users, FindUsers(settings, functions));
    if (users.empty()) return {};
    if (!watcher) {
      TRY_ASSIGN(watcher, host::DeviceUserWatcher::Create());
    }
    watcher->Take();
    watcher->Watch(users);
    // Somebody may have let go, or come, before the watch stood.
    TRY_ASSIGN(users, FindUsers(settings, functions));
    if (users.empty()) return {};
    const auto names = NamesOf(users);
    if (names != told) base::LogInfo("Waiting for users", {{"device", name}, {"users", names}});
    told = names;
    const auto woken = io::WaitReadable({watcher->fd()}, stop, deadline);
    if (woken) continue;
    if (woken.error().code != base::Code::kTimeout) return base::Fail(woken.error());
    return base::Fail(base::Error{
        base::Code::kConflict, std::string(kGpuInUse),
        fmt::format("{} is in use by {}: end them, or the pods that they belong to, and "
                    "try again",
                    name, names)});
  }
}

}  // namespace pitcrew::node::vfio

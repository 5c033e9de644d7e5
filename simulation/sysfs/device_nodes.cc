#include "simulation/sysfs/device_nodes.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace pitcrew::simulation::sysfs {
namespace {

namespace fs = std::filesystem;

// In the range that the kernel hands out itself from the top, which none of the machines here
// reaches.
constexpr unsigned kMajor = 400;

// "vfio" 0, everybody's; "40" and "vfio40" 41, root's.
base::Status MakeNode(const fs::path& path) {
  const std::string name = path.filename();
  const auto digit = name.find_first_of("0123456789");
  const unsigned long minor = digit == std::string::npos ? 0 : std::stoul(name.substr(digit)) + 1;
  const mode_t mode = digit == std::string::npos ? 0666 : 0600;
  if (::mknod(path.c_str(), S_IFCHR | mode, makedev(kMajor, minor)) == 0 &&
      ::chmod(path.c_str(), mode) == 0) {
    return {};
  }
  return base::Fail(base::FromErrno(errno, "make " + path.string()));
}

base::Status Reconcile(const fs::path& folder, const std::set<std::string>& wanted) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::set<std::string> present;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory(error)) continue;
    if (wanted.contains(name)) {
      present.insert(name);
    } else {
      fs::remove(entry.path(), error);
    }
  }
  for (const auto& name : wanted) {
    if (!present.contains(name)) TRY(MakeNode(folder / name));
  }
  return {};
}

}  // namespace

base::Status DeviceNodes::Reconcile(const Machine& machine) {
  if (dev_.empty() || !machine.platform().vfio) return {};
  std::set<std::string> groups = {"vfio"};
  for (const auto group : machine.VfioGroups()) groups.insert(std::to_string(group));
  TRY(sysfs::Reconcile(dev_ / "vfio", groups));
  if (!machine.platform().iommufd) return {};
  std::set<std::string> devices;
  for (const auto& [address, device] : machine.devices()) {
    if (device.character) devices.insert("vfio" + std::to_string(*device.character));
  }
  TRY(sysfs::Reconcile(dev_ / "vfio/devices", devices));
  if (std::error_code error; fs::exists(dev_ / "iommu", error)) return {};
  return MakeNode(dev_ / "iommu");
}

}  // namespace pitcrew::simulation::sysfs

#include "simulation/sysfs/surroundings.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <set>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::simulation::sysfs {
namespace {

namespace fs = std::filesystem;

// The whole real tree once more; what is a link leads into it.
constexpr const char* kReal = "/simulation/machine";

std::set<std::string> Names(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.insert(entry.path().filename());
  }
  return names;
}

bool IsNvidias(const fs::path& device) {
  const auto vendor = base::ReadFile(device / "vendor");
  return vendor && base::Trim(*vendor) == "0x10de";
}

}  // namespace

base::Result<RealSys> RealSys::Open(const fs::path& sys, const Machine& machine) {
  RealSys real;
  real.folder_ = base::FileDescriptor(::open(sys.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!real.folder_.valid()) return base::Fail(base::FromErrno(errno, "open " + sys.string()));
  real.Plan(sys, machine);
  return real;
}

void RealSys::Mount(const std::string& path, bool folder) {
  (folder ? surroundings_.folders : surroundings_.files).insert(path);
  mounts_.push_back(path);
}

void RealSys::Plan(const fs::path& real, const Machine& machine) {
  const Tree simulated = BuildTree(machine, {});
  surroundings_.folders.insert(kReal);
  const std::set<std::string> shared = {"bus", "class", "kernel", "module"};
  for (const auto& name : Names(real)) {
    if (name == "devices" || name == "simulation") continue;
    if (!shared.contains(name)) {
      Mount("/" + name, true);
      continue;
    }
    for (const auto& entry : Names(real / name)) {
      // The machine's own driver is not the node's.
      if (name == "module" && entry.starts_with("nvidia")) continue;
      const std::string path = "/" + name + "/" + entry;
      if (simulated.Find(path) == nullptr) surroundings_.links[path] = ".." + (kReal + path);
    }
  }
  PlanDevices(real, simulated);
}

// Mounted, not linked: programs tell devices apart by where links of the tree really lead.
void RealSys::PlanDevices(const fs::path& real, const Tree& simulated) {
  for (const auto& name : Names(real / "devices")) {
    const std::string path = "/devices/" + name;
    if (simulated.Find(path) == nullptr && name != "virtual")
      Mount(path, fs::is_directory(real / "devices" / name));
  }
  for (const auto& name : Names(real / "devices/virtual")) {
    const std::string path = "/devices/virtual/" + name;
    if (simulated.Find(path) == nullptr && name != "devlink") Mount(path, true);
  }
  std::error_code error;
  for (const auto& address : Names(real / "bus/pci/devices")) {
    const fs::path link = real / "bus/pci/devices" / address;
    const std::string path = "/bus/pci/devices/" + address;
    const std::string target = fs::read_symlink(link, error);
    if (error || IsNvidias(link) || simulated.Find(path) != nullptr) continue;
    surroundings_.links[path] = target;
  }
}

base::Status RealSys::MountInto(const fs::path& sys) const {
  const std::string real = "/proc/self/fd/" + std::to_string(folder_.get());
  const auto mount = [&](const std::string& from, const std::string& to,
                         unsigned long more) -> base::Status {
    const std::string target = sys.string() + to;
    if (::mount((real + from).c_str(), target.c_str(), nullptr, MS_BIND | more, nullptr) == 0) {
      return {};
    }
    return base::Fail(base::FromErrno(errno, "mount the real " + from + " at " + target));
  };
  // Without what is mounted below: that would be the tree itself, again.
  TRY(mount("", kReal, 0));
  for (const auto& path : mounts_) TRY(mount(path, path, MS_REC));
  return {};
}

}  // namespace pitcrew::simulation::sysfs

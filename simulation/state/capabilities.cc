#include "simulation/state/capabilities.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "simulation/state/discovery.h"
#include "simulation/state/mig.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kGpuInstances = 15;
constexpr std::uint32_t kComputeInstances = 8;

// Character device majors that drivers of this kernel have.
std::set<unsigned> UsedMajors() {
  std::set<unsigned> used;
  std::ifstream file("/proc/devices");
  std::string line;
  while (std::getline(file, line) && line != "Block devices:") {
    std::istringstream words(line);
    unsigned major = 0;
    if (words >> major) used.insert(major);
  }
  return used;
}

// The nth free one from the upper end of the range for dynamic majors.
unsigned FreeMajor(int nth) {
  const auto used = UsedMajors();
  unsigned major = 510;
  while (major > 384 && (used.contains(major) || nth-- > 0)) --major;
  return major;
}

// Zero or errno.
int MakeNode(const fs::path& folder, std::uint32_t minor, unsigned major) {
  const fs::path path = folder / ("nvidia-cap" + std::to_string(minor));
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(major, minor)) != 0) {
    return errno == EEXIST ? 0 : errno;
  }
  // mknod obeys the umask. Configuration and monitoring are the administrator's.
  return ::chmod(path.c_str(), minor <= kMigMonitorMinor ? 0400 : 0444) == 0 ? 0 : errno;
}

}  // namespace

unsigned UvmMajor() { return FreeMajor(0); }
unsigned CapabilitiesMajor() { return FreeMajor(1); }

std::string MigMinorsText(const NodeState& node) {
  std::ostringstream text;
  text << "config " << kMigConfigMinor << "\nmonitor " << kMigMonitorMinor << "\n";
  std::vector<std::uint32_t> gpus;
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) gpus.push_back(node.gpus[i].minor_number);
  std::ranges::sort(gpus);
  for (const auto gpu : gpus) {
    for (std::uint32_t instance = 0; instance < kGpuInstances; ++instance) {
      const std::string name = "gpu" + std::to_string(gpu) + "/gi" + std::to_string(instance);
      text << name << "/access " << GpuInstanceMinor(gpu, instance) << "\n";
      for (std::uint32_t compute = 0; compute < kComputeInstances; ++compute) {
        text << name << "/ci" << compute << "/access "
             << ComputeInstanceMinor(gpu, instance, compute) << "\n";
      }
    }
  }
  return text.str();
}

int MakeCapabilityNodes(const fs::path& dev, const NodeState& node) {
  const auto gpus = std::span(node.gpus).first(node.gpu_count);
  const auto capable = [](const GpuState& gpu) { return gpu.mig_capable != 0; };
  if (std::ranges::none_of(gpus, capable)) return 0;
  const fs::path folder = dev / "nvidia-caps";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return error.value();
  const unsigned major = CapabilitiesMajor();
  std::set<std::uint32_t> minors = {kMigConfigMinor, kMigMonitorMinor};
  for (const auto& gpu : gpus) {
    for (const auto& device : ListMigDevices(gpu)) {
      minors.insert(GpuInstanceMinor(gpu.minor_number, device.instance_id));
      minors.insert(ComputeInstanceMinor(gpu.minor_number, device.instance_id, device.compute_id));
    }
  }
  for (const auto minor : minors) {
    if (const int failure = MakeNode(folder, minor, major); failure != 0) return failure;
  }
  return 0;
}

std::vector<fs::path> CapabilityFolders(const fs::path& library) {
  std::vector<fs::path> folders;
  for (const auto& dev : {DriverRootOf(library) / "dev", fs::path("/dev")}) {
    struct stat info{};
    if (!dev.is_absolute() || ::stat((dev / "nvidiactl").c_str(), &info) != 0) continue;
    if (S_ISCHR(info.st_mode)) folders.push_back(dev);
  }
  return folders;
}

}  // namespace pitcrew::simulation

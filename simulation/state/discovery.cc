#include "simulation/state/discovery.h"

#include <sys/stat.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

bool IsCharacterDevice(const fs::path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
}

// nvidia<N>.
bool HasGpuNode(const fs::path& dev) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dev, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 &&
        std::isdigit(static_cast<unsigned char>(name[6])) != 0 && IsCharacterDevice(entry.path())) {
      return true;
    }
  }
  return false;
}

fs::path Resolved(const fs::path& path) {
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  return error ? path : resolved;
}

}  // namespace

fs::path DriverRootOf(const fs::path& library) {
  constexpr std::array<std::string_view, 7> kFolders = {"/usr/lib/x86_64-linux-gnu",
                                                        "/usr/lib/aarch64-linux-gnu",
                                                        "/usr/lib64",
                                                        "/lib/x86_64-linux-gnu",
                                                        "/lib/aarch64-linux-gnu",
                                                        "/lib64",
                                                        "/usr/lib"};
  const std::string folder = Resolved(library).parent_path().string();
  for (const auto end : kFolders) {
    if (!folder.ends_with(end)) continue;
    const std::string root = folder.substr(0, folder.size() - end.size());
    return root.empty() ? "/" : root;
  }
  return {};
}

fs::path FindStateFile(const fs::path& library) {
  if (const char* path = std::getenv(kStateVariable); path != nullptr && *path != 0) return path;
  const fs::path resolved = Resolved(library);
  const std::string name = resolved.filename().string();
  if (const auto so = name.find(".so."); so != std::string::npos) {
    const fs::path own = resolved.parent_path() / (kStateLibraryPrefix + name.substr(so + 4));
    if (std::error_code error; fs::exists(own, error)) return own;
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(resolved.parent_path(), error)) {
    if (entry.path().filename().string().starts_with(kStateLibraryPrefix)) return entry.path();
  }
  return kStatePath;
}

fs::path FindDeviceFolder(const fs::path& library) {
  if (const char* dev = std::getenv(kDevVariable); dev != nullptr && *dev != 0) return dev;
  if (HasGpuNode("/dev")) return "/dev";
  const fs::path root = DriverRootOf(library);
  if (!root.empty() && root != "/" && HasGpuNode(root / "dev")) return root / "dev";
  return IsCharacterDevice("/dev/nvidiactl") ? "/dev" : fs::path();
}

bool IsVisible(const fs::path& dev, const GpuState& gpu) {
  if (gpu.detached != 0) return false;
  return dev.empty() || IsCharacterDevice(dev / ("nvidia" + std::to_string(gpu.minor_number)));
}

bool RestrictsMig(const fs::path& dev) {
  if (dev.empty()) return false;
  const fs::path caps = dev / "nvidia-caps";
  std::error_code error;
  if (!fs::is_directory(caps, error)) return false;
  return !IsCharacterDevice(caps / ("nvidia-cap" + std::to_string(kMigConfigMinor))) &&
         !IsCharacterDevice(caps / ("nvidia-cap" + std::to_string(kMigMonitorMinor)));
}

bool HasCapabilityNodes(const fs::path& dev, const GpuState& gpu, std::uint32_t gpu_instance_id,
                        std::uint32_t compute_instance_id) {
  const auto has = [&](std::uint32_t minor) {
    return IsCharacterDevice(dev / "nvidia-caps" / ("nvidia-cap" + std::to_string(minor)));
  };
  return has(GpuInstanceMinor(gpu.minor_number, gpu_instance_id)) &&
         has(ComputeInstanceMinor(gpu.minor_number, gpu_instance_id, compute_instance_id));
}

std::uint32_t GpuInstanceMinor(std::uint32_t gpu_minor, std::uint32_t gpu_instance_id) {
  constexpr std::uint32_t kPerInstance = 9;
  constexpr std::uint32_t kInstances = 15;
  return kMigMonitorMinor + 1 + gpu_minor * kInstances * kPerInstance +
         gpu_instance_id * kPerInstance;
}

std::uint32_t ComputeInstanceMinor(std::uint32_t gpu_minor, std::uint32_t gpu_instance_id,
                                   std::uint32_t compute_instance_id) {
  return GpuInstanceMinor(gpu_minor, gpu_instance_id) + 1 + compute_instance_id;
}

}  // namespace pitcrew::simulation

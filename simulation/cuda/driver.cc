#include "simulation/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "simulation/cuda/mps.h"
#include "simulation/state/discovery.h"
#include "simulation/state/incidents.h"

namespace pitcrew::simulation::cuda {

constinit thread_local ContextStack current_contexts{};

Driver::Driver() = default;

Driver::~Driver() {
  for (const auto& [pointer, allocation] : allocations) std::free(Host(pointer));
}

Driver& TheDriver() {
  static Driver driver;
  return driver;
}

std::filesystem::path LibraryPath() {
  Dl_info info{};
  static const char kAnchor = 0;
  if (::dladdr(&kAnchor, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::vector<CudaDevice> ListDevices(const NodeState& node) {
  const auto dev = FindDeviceFolder(LibraryPath());
  const bool restricted = RestrictsMig(dev);
  std::vector<CudaDevice> devices;
  for (std::uint32_t i = 0; i < node.gpu_count && i < kMaxGpus; ++i) {
    const GpuState& gpu = node.gpus[i];
    if (!IsVisible(dev, gpu)) continue;
    if (gpu.mig_current == 0) {
      devices.push_back({i, false, {}});
      continue;
    }
    for (const auto& ref : ListMigDevices(gpu)) {
      if (restricted && !HasCapabilityNodes(dev, gpu, ref.instance_id, ref.compute_id)) continue;
      devices.push_back({i, true, ref});
      break;
    }
  }
  return devices;
}

Result Look(Driver& driver, int ordinal, View& view) {
  if (!driver.file) return kNotInitialized;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= driver.devices.size()) {
    return kInvalidDevice;
  }
  const CudaDevice& device = driver.devices[static_cast<std::size_t>(ordinal)];
  view.node = driver.file->Snapshot();
  view.gpu = &view.node->gpus[device.gpu];
  if (view.gpu->lost != 0) return kDeviceUnavailable;
  if (view.gpu->unknown_error != 0) return kUnknown;
  if (!device.mig) return kSuccess;
  view.instance = FindInstance(*view.gpu, device.ref.instance_serial);
  if (view.instance != nullptr) {
    view.compute = FindComputeInstance(*view.instance, device.ref.compute_serial);
  }
  return view.compute != nullptr ? kSuccess : kDeviceUnavailable;
}

std::uint64_t TotalMemory(const View& view) {
  if (view.compute == nullptr) return view.gpu->memory_total;
  return ProfileOf(*view.gpu, *view.instance).memory_mib << 20;
}

std::uint64_t UsedHere(const Driver& driver, int device) {
  std::uint64_t used = 0;
  for (const auto& [pointer, allocation] : driver.allocations) {
    if (allocation.device == device) used += allocation.size;
  }
  return used;
}

void Announce(Driver& driver, int ordinal, bool running) {
  if (!driver.file->writable()) return;
  const CudaDevice& device = driver.devices[static_cast<std::size_t>(ordinal)];
  const auto pid = static_cast<std::uint32_t>(::getpid());
  (void)driver.file->Update([&](NodeState& node) {
    GpuState& gpu = node.gpus[device.gpu];
    if (!running) return RemoveProcess(gpu, pid);
    char path[256] = {};
    if (::readlink("/proc/self/exe", path, sizeof(path) - 1) < 0) path[0] = 0;
    return AddProcess(gpu, pid, path, UsedHere(driver, ordinal), false,
                      device.mig ? device.ref.instance_id : kNoInstance,
                      device.mig ? device.ref.compute_id : kNoInstance);
  });
}

bool IsAllocated(const Driver& driver, DevicePointer pointer, std::size_t size) {
  auto after = driver.allocations.upper_bound(pointer);
  if (after == driver.allocations.begin()) return false;
  const auto& [start, allocation] = *--after;
  return pointer - start <= allocation.size && size <= allocation.size - (pointer - start);
}

}  // namespace pitcrew::simulation::cuda

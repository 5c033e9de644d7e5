#include "simulation/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

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

namespace {

// A call on a GPU that is slow, or hangs, takes its time.
void WaitOutSlowness(StateFile& file, std::uint32_t gpu) {
  const std::int64_t start = MonotonicNow();
  while (true) {
    const auto seen = file.ChangeCount();
    const std::int64_t milliseconds = file.Snapshot()->gpus[gpu].slow_milliseconds;
    if (milliseconds == 0) return;
    const auto until =
        milliseconds == kHangs ? std::nullopt : std::optional(start + milliseconds * 1'000'000);
    if (!file.Wait(seen, until)) return;
  }
}

// Of a MIG device; empty for a whole GPU, and when the instance is gone.
std::string UuidOf(const GpuState& gpu, const CudaDevice& device) {
  const auto* instance = device.mig ? FindInstance(gpu, device.ref.instance_serial) : nullptr;
  const auto* compute =
      instance != nullptr ? FindComputeInstance(*instance, device.ref.compute_serial) : nullptr;
  return compute != nullptr ? MigUuid(gpu, *instance, *compute) : "";
}

// What CUDA_VISIBLE_DEVICES leaves of the devices, in its order: positions, or UUIDs by their
// beginning; the first word that means none ends the list, as CUDA's documentation says.
std::vector<CudaDevice> ChooseVisible(const NodeState& node, std::vector<CudaDevice> devices) {
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) return devices;
  std::vector<CudaDevice> chosen;
  std::istringstream words(variable);
  for (std::string word; std::getline(words, word, ',');) {
    const auto meant = [&](std::size_t position) {
      const GpuState& gpu = node.gpus[devices[position].gpu];
      if (word.starts_with("GPU-")) return std::string_view(gpu.uuid).starts_with(word);
      if (word.starts_with("MIG-")) return UuidOf(gpu, devices[position]).starts_with(word);
      return word == std::to_string(position);
    };
    std::size_t position = 0;
    while (position < devices.size() && !meant(position)) ++position;
    if (position == devices.size()) break;
    chosen.push_back(devices[position]);
  }
  return chosen;
}

}  // namespace

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
  return ChooseVisible(node, std::move(devices));
}

Result Look(Driver& driver, int ordinal, View& view) {
  if (!driver.file) return kNotInitialized;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= driver.devices.size()) {
    return kInvalidDevice;
  }
  const CudaDevice& device = driver.devices[static_cast<std::size_t>(ordinal)];
  WaitOutSlowness(*driver.file, device.gpu);
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

std::uint64_t FreePlace(const Driver& driver, int device, std::size_t size) {
  std::map<std::uint64_t, std::size_t> taken;
  for (const auto& [pointer, allocation] : driver.allocations) {
    if (allocation.device == device) taken[allocation.start] = allocation.size;
  }
  std::uint64_t place = 0;
  for (const auto& [start, length] : taken) {
    if (start - place >= size) break;
    place = start + length;
  }
  return place;
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

// Where a library of the simulated driver finds the node's state, and which GPUs its process may
// see.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "simulation/state/layout.h"

namespace pitcrew::simulation {

inline constexpr const char* kStatePath = "/run/nvidia/simulation/state";
inline constexpr const char* kStateLibraryPrefix = "libnvidia-simulation.so.";
// For tests and for use without an installation.
inline constexpr const char* kStateVariable = "PITCREW_SIMULATION_STATE";
inline constexpr const char* kDevVariable = "PITCREW_SIMULATION_DEV";

// `library` is where the calling library was loaded from. The first of: $PITCREW_SIMULATION_STATE;
// libnvidia-simulation.so.<version> beside the library (links resolved), of the library's own
// version if there are several; the node's own file.
[[nodiscard]] std::filesystem::path FindStateFile(const std::filesystem::path& library);

// The root below which the library (links resolved) lies in one of the library folders that drivers
// use; empty when it lies in none.
[[nodiscard]] std::filesystem::path DriverRootOf(const std::filesystem::path& library);

// The folder with the device nodes that decide what this process sees: $PITCREW_SIMULATION_DEV,
// else /dev when it has a GPU's node, else dev of the driver root that the library lies in when
// that has one, else /dev when it has the control node (a container that was given no GPU), else
// nothing (empty): then every GPU is visible. A real library sees the GPUs whose device nodes it
// can open; here their presence is what counts, for there is no kernel driver behind them.
[[nodiscard]] std::filesystem::path FindDeviceFolder(const std::filesystem::path& library);

// Whether a process has the GPU: NVIDIA's driver has it, and `dev` has its device node. An empty
// `dev` has everything.
[[nodiscard]] bool IsVisible(const std::filesystem::path& dev, const GpuState& gpu);

// Whether MIG devices are limited to those with capability nodes: `dev` has nvidia-caps, and
// neither MIG configuration nor monitoring is granted in it.
[[nodiscard]] bool RestrictsMig(const std::filesystem::path& dev);
// Whether `dev` has both capability nodes of a MIG device.
[[nodiscard]] bool HasCapabilityNodes(const std::filesystem::path& dev, const GpuState& gpu,
                                      std::uint32_t gpu_instance_id,
                                      std::uint32_t compute_instance_id);

// The minors of /dev/nvidia-caps/nvidia-cap<minor>, numbered as the kernel driver does in
// /proc/driver/nvidia-caps/mig-minors: 1 config, 2 monitor, then per GPU 15 GPU instances of one
// minor of their own and 8 compute instances.
inline constexpr std::uint32_t kMigConfigMinor = 1;
inline constexpr std::uint32_t kMigMonitorMinor = 2;
[[nodiscard]] std::uint32_t GpuInstanceMinor(std::uint32_t gpu_minor,
                                             std::uint32_t gpu_instance_id);
[[nodiscard]] std::uint32_t ComputeInstanceMinor(std::uint32_t gpu_minor,
                                                 std::uint32_t gpu_instance_id,
                                                 std::uint32_t compute_instance_id);

}  // namespace pitcrew::simulation

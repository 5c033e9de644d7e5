// What a simulated GPU measures at a moment: pure functions of its state and the time, so every
// process of the node reads the same.
#pragma once

#include <cstdint>

#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// `now` is nanoseconds since the epoch everywhere.
[[nodiscard]] std::uint32_t GpuUtilization(const GpuState& gpu, std::int64_t now);     // percent
[[nodiscard]] std::uint32_t MemoryUtilization(const GpuState& gpu, std::int64_t now);  // percent
[[nodiscard]] std::uint32_t Temperature(const GpuState& gpu, std::int64_t now);        // Celsius
[[nodiscard]] std::uint32_t PowerUsage(const GpuState& gpu, std::int64_t now);         // milliwatt
[[nodiscard]] std::uint32_t SmClock(const GpuState& gpu, std::int64_t now);            // MHz
[[nodiscard]] std::uint32_t MemoryClock(const GpuState& gpu);                          // MHz
[[nodiscard]] std::uint32_t PerformanceState(const GpuState& gpu);                     // P<n>
// Millijoule since the state was made; never falls.
[[nodiscard]] std::uint64_t Energy(const GpuState& gpu, std::int64_t now);
// Bytes used by processes, without what the driver reserves.
[[nodiscard]] std::uint64_t ProcessMemory(const GpuState& gpu);

// Changes the load at `now`, keeping the energy used so far.
void SetLoad(GpuState& gpu, std::uint32_t percent, std::int64_t now);

}  // namespace pitcrew::simulation

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
// Of the memory, for boards that measure it.
[[nodiscard]] std::uint32_t MemoryTemperature(const GpuState& gpu, std::int64_t now);  // Celsius
[[nodiscard]] std::uint32_t PowerUsage(const GpuState& gpu, std::int64_t now);         // milliwatt
[[nodiscard]] std::uint32_t SmClock(const GpuState& gpu, std::int64_t now);            // MHz
[[nodiscard]] std::uint32_t VideoClock(const GpuState& gpu, std::int64_t now);         // MHz
[[nodiscard]] std::uint32_t MemoryClock(const GpuState& gpu);                          // MHz
[[nodiscard]] std::uint32_t PerformanceState(const GpuState& gpu);                     // P<n>
// Millijoule since the state was made; never falls.
[[nodiscard]] std::uint64_t Energy(const GpuState& gpu, std::int64_t now);
// Bytes used by processes, without what the driver reserves.
[[nodiscard]] std::uint64_t ProcessMemory(const GpuState& gpu);

// Seconds of full load since the state was made; never falls.
[[nodiscard]] double BusySeconds(const GpuState& gpu, std::int64_t now);
// Nanoseconds without any load since the state was made; never falls.
[[nodiscard]] std::uint64_t IdleNanoseconds(const GpuState& gpu, std::int64_t now);
// Bytes over PCIe in one direction since the state was made, and at this moment in a second. Sent
// is what the GPU sends.
enum class Direction { kSent, kReceived };
[[nodiscard]] std::uint64_t PcieBytes(const GpuState& gpu, Direction direction, std::int64_t now);
[[nodiscard]] std::uint64_t PcieBytesPerSecond(const GpuState& gpu, Direction direction,
                                               std::int64_t now);
// Bytes over one NVLink in either direction, the same two ways.
[[nodiscard]] std::uint64_t LinkBytes(const GpuState& gpu, std::int64_t now);
[[nodiscard]] std::uint64_t LinkBytesPerSecond(const GpuState& gpu, std::int64_t now);

// What the PCIe link has trained to.
[[nodiscard]] std::uint32_t PcieGeneration(const GpuState& gpu);
[[nodiscard]] std::uint32_t PcieWidth(const GpuState& gpu);  // lanes
// Bytes a second of a copy over PCIe in one direction, and of reading or writing the GPU's own
// memory: four fifths of what bus and clock allow, as benchmarks of real boards come to.
[[nodiscard]] double PcieCopyRate(const GpuState& gpu);
[[nodiscard]] double MemoryCopyRate(const GpuState& gpu);
// The same over all of its NVLinks that are up, in one direction; 0 where none is.
[[nodiscard]] double NvLinkCopyRate(const GpuState& gpu);

// Why clocks are held down, NVML's bits.
[[nodiscard]] std::uint64_t ClocksEventReasons(const GpuState& gpu);
// Nanoseconds that any of the reasons has been in force; never falls.
[[nodiscard]] std::uint64_t ThrottledNanoseconds(const GpuState& gpu, std::uint64_t reasons,
                                                 std::int64_t now);

// Changes the load at `now`, keeping what grew with it so far.
void SetLoad(GpuState& gpu, std::uint32_t percent, std::int64_t now);
// Changes why clocks are held down, keeping the time counted so far.
void SetThrottleReasons(GpuState& gpu, std::uint64_t reasons, std::int64_t now);
// Ends the period of constant load: what grows with it is counted up to `now`.
void CountUntil(GpuState& gpu, std::int64_t now);

}  // namespace pitcrew::simulation

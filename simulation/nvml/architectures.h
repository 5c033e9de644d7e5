// NVML's numbers of the architectures that answers differ by.
#pragma once

#include <cstdint>

namespace pitcrew::simulation::library {

inline constexpr std::uint32_t kAmpere = 7;
inline constexpr std::uint32_t kAda = 8;
inline constexpr std::uint32_t kHopper = 9;
inline constexpr std::uint32_t kBlackwell = 10;

}  // namespace pitcrew::simulation::library

// Structures and constants of libdxcore.so (d3dkmthk.h of the Windows driver kit).
#pragma once

#include <cstdint>

namespace pitcrew::host::dxcore {

struct AdapterInfo {
  std::uint32_t handle;
  std::uint32_t luid[2];
  std::uint32_t source_count;
  std::uint32_t moves_regions;
};
static_assert(sizeof(AdapterInfo) == 20);

// `adapters` null: only the count is filled in.
struct EnumAdapters2 {
  std::uint32_t count;
  AdapterInfo* adapters;
};

inline constexpr std::uint64_t kComputeToo = 1;  // adapters without a display as well
struct EnumAdapters3 {
  std::uint64_t filter;
  std::uint32_t count;
  AdapterInfo* adapters;
};

inline constexpr std::uint32_t kDriverVersion = 13;  // WDDM's, 2700 for 2.7
inline constexpr std::uint32_t kQueryRegistry = 48;
struct QueryAdapterInfo {
  std::uint32_t handle;
  std::uint32_t type;
  void* data;
  std::uint32_t size;
};

inline constexpr std::uint32_t kDriverStorePath = 2;
inline constexpr std::size_t kLongestPath = 260;
// The text begins where `output` is and goes on behind the structure.
struct RegistryInfo {
  std::uint32_t type;
  std::uint32_t flags;
  wchar_t name[kLongestPath];
  std::uint32_t value_type;
  std::uint32_t adapter;
  std::uint32_t output_bytes;
  std::uint32_t status;
  union {
    std::uint64_t number;
    wchar_t text;
  } output;
};

using EnumAdapters2Function = int(EnumAdapters2*);
using EnumAdapters3Function = int(EnumAdapters3*);
using QueryAdapterInfoFunction = int(QueryAdapterInfo*);

}  // namespace pitcrew::host::dxcore

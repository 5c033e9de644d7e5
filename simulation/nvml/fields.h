// One field value that is asked for: what the groups of fields.cc and link_fields.cc share.
#pragma once

#include <cstdint>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/architectures.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation::library {

// What is asked, of whom, when.
struct Request {
  const NodeState& node;
  const GpuState& gpu;
  std::uint32_t position;  // of the GPU in NodeState::gpus
  std::int64_t now;        // nanoseconds since the epoch
  unsigned id;
  unsigned scope;

  [[nodiscard]] bool In(unsigned first, unsigned last) const { return id >= first && id <= last; }
};

inline void Set(nvml::abi::FieldValue& value, std::uint64_t number) {
  value.value_type = nvml::abi::kValueUnsignedLongLong;
  value.value.as_unsigned_long_long = number;
  value.nvml_return = nvml::abi::kSuccess;
}
inline void Set(nvml::abi::FieldValue& value, std::uint32_t number) {
  value.value_type = nvml::abi::kValueUnsignedInt;
  value.value.as_unsigned = number;
  value.nvml_return = nvml::abi::kSuccess;
}
inline void Set(nvml::abi::FieldValue& value, std::int32_t number) {
  value.value_type = nvml::abi::kValueSignedInt;
  value.value.as_int = number;
  value.nvml_return = nvml::abi::kSuccess;
}

// Each answers true when the field is one of its own: set, or left Not Supported.
bool ReadNumberedLink(const Request& request, nvml::abi::FieldValue& value);
bool ReadScopedLink(const Request& request, nvml::abi::FieldValue& value);
bool ReadLinkFacts(const Request& request, nvml::abi::FieldValue& value);

}  // namespace pitcrew::simulation::library

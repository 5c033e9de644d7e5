// Reading field values of the simulated library, and letting time pass for what grows with it.
#pragma once

#include <chrono>

#include "nvml/abi_metrics.h"
#include "simulation/tests/support_nvml_library.h"

namespace pitcrew::simulation {

class ReadingNvml : public NvmlLibrary {
 protected:
  FieldValue Field(Device device, unsigned id, unsigned scope = 0) {
    FieldValue value{};
    value.field_id = id;
    value.scope_id = scope;
    EXPECT_EQ(Call("nvmlDeviceGetFieldValues", device, 1, &value), kSuccess);
    EXPECT_GT(value.timestamp, 0);
    return value;
  }
  unsigned long long Number(Device device, unsigned id, unsigned scope = 0) {
    const FieldValue value = Field(device, id, scope);
    EXPECT_EQ(value.nvml_return, kSuccess) << "field " << id;
    return value.value_type == kValueUnsignedInt ? value.value.as_unsigned
                                                 : value.value.as_unsigned_long_long;
  }
  Return FieldReturn(Device device, unsigned id, unsigned scope = 0) {
    return Field(device, id, scope).nvml_return;
  }
  // As if the present load and limits had lasted that much longer.
  void LetPass(std::chrono::seconds time) {
    Change_([&](NodeState& node) {
      const std::int64_t passed = std::chrono::nanoseconds(time).count();
      for (auto& gpu : node.gpus) {
        gpu.energy_since -= passed;
        gpu.throttle.since -= passed;
      }
    });
  }
};

}  // namespace pitcrew::simulation

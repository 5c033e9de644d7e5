// What is read of a NVIDIADriver object beside its spec.
#pragma once

#include <cstdint>

#include "api/nvidia_driver.h"
#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::desired {

struct DriverView {
  api::NvidiaDriver driver;
  codec::Json status;         // as stored; null when there is none
  std::uint64_t version = 0;  // resourceVersion
  bool deleting = false;
};
base::Result<DriverView> ReadDriverView(const codec::Json& object);

}  // namespace pitcrew::desired

// Events: moments of a context's work, between which time is measured.
#include "simulation/cuda/driver.h"

using namespace pitcrew::simulation::cuda;

namespace {

Event* FindEvent(Driver& driver, const void* event) {
  const auto found = driver.events.find(event);
  return found == driver.events.end() ? nullptr : found->second.get();
}

}  // namespace

CUDA_API Result cuEventCreate(void** event, unsigned) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  if (event == nullptr) return kInvalidValue;
  auto made = std::make_unique<Event>();
  *event = made.get();
  driver.events[*event] = std::move(made);
  return kSuccess;
}

CUDA_API Result cuEventDestroy_v2(void* event) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  return driver.events.erase(event) != 0 ? kSuccess : kInvalidHandle;
}
CUDA_API Result cuEventDestroy(void* event) { return cuEventDestroy_v2(event); }

CUDA_API Result cuEventRecord(void* event, void*) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (Current() == nullptr) return kInvalidContext;
  Event* found = FindEvent(driver, event);
  if (found == nullptr) return kInvalidHandle;
  found->nanoseconds = Current()->nanoseconds;
  return kSuccess;
}

// Work is done when the call that starts it returns.
CUDA_API Result cuEventSynchronize(void* event) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  return FindEvent(driver, event) != nullptr ? kSuccess : kInvalidHandle;
}

CUDA_API Result cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  Driver& driver = TheDriver();
  const std::lock_guard guard(driver.mutex);
  if (milliseconds == nullptr) return kInvalidValue;
  const Event* first = FindEvent(driver, start);
  const Event* last = FindEvent(driver, end);
  if (first == nullptr || last == nullptr) return kInvalidHandle;
  if (first->nanoseconds < 0 || last->nanoseconds < 0) return kInvalidHandle;
  *milliseconds = static_cast<float>((last->nanoseconds - first->nanoseconds) / 1e6);
  return kSuccess;
}

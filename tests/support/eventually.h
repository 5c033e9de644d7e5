// Waiting for what has no event that a test could hear: the state of an API server after many steps
// of others.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "tests/support/patience.h"

namespace pitcrew::test_support {

// Asks until it is so; for at most as long as the slowest machine needs.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace pitcrew::test_support

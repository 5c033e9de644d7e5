// Waiting for what has no event that a test could hear: the state of an API server after many steps
// of others.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/support/patience.h"

namespace pitcrew::test_support {

// Asks until it is so; for at most as long as the slowest machine needs. What takes longer is asked
// less often, and is known a tenth of its time later at most: the questions, an API server's answers
// to them above all, are work that keeps it from what it is waited for.
inline bool Eventually(const std::function<bool()>& condition) {
  using std::chrono::milliseconds;
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    const auto waited =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
    if (waited > kPatience) return false;
    std::this_thread::sleep_for(std::clamp(waited / 10, milliseconds{20}, milliseconds{200}));
  }
  return true;
}

}  // namespace pitcrew::test_support

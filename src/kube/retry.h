// When a request or a watch is tried again, and after how long. Pure: no clock, no I/O.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "kube/request.h"

namespace pitcrew::kube {

// Doubling delays with jitter. `random` gives numbers in [0, 1).
struct BackoffPolicy {
  std::chrono::milliseconds base{100};
  std::chrono::milliseconds cap{3000};
  double jitter = 0.0;  // the delay is multiplied by a number in [1, 1 + jitter)

  // The delay before try number `failures` + 1; `failures` is 1 after the first failure.
  [[nodiscard]] std::chrono::milliseconds Delay(int failures, double random = 0.0) const;
};

struct RetryPolicy {
  int attempts = 6;  // tries in all; 1: never again
  BackoffPolicy backoff{.base = std::chrono::milliseconds(200),
                        .cap = std::chrono::milliseconds(5000),
                        .jitter = 0.2};
  // The longest Retry-After that is obeyed; a longer one ends the tries.
  std::chrono::milliseconds longest_retry_after{30000};
  bool after_too_many = true;  // whether 429 is tried again
  bool after_silence = false;  // whether an idempotent request without an answer in time is
};

// What came of one try.
struct Outcome {
  int http_status = 0;  // 0: no answer
  std::optional<std::chrono::seconds> retry_after{};
  base::Error error{};
};

// The delay before the next try, or nothing when `outcome` is final. Tried again: 429, which the
// server gives before it does anything; 503 with Retry-After, likewise; of idempotent requests also
// any 5xx with Retry-After, 503, 504, a lost connection and, where the policy says so, no answer in
// time; refused connections, as nothing was sent. A request that creates is not repeated after
// other errors: a 500 or 504 may come after the creation. `attempt` is 1 for the first try.
std::optional<std::chrono::milliseconds> NextTry(const RetryPolicy& policy, const Request& request,
                                                 const Outcome& outcome, int attempt,
                                                 double random);

// The seconds of a Retry-After header; nothing when it is not a whole number of seconds.
std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view value);

}  // namespace pitcrew::kube

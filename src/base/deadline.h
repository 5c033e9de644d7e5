// The moment at which a wait or a call ends: one absolute value that every step on the way shares,
// so that steps one behind the other cannot add up to more than was allowed.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <compare>
#include <optional>

#include "base/clock.h"

namespace pitcrew::base {

// Of the steady clock: a change of the wall clock moves no deadline. A value; a default-made one
// never passes and is later than any other.
class Deadline {
 public:
  Deadline() = default;
  // Implicit, so that a moment can stand where a deadline is asked for.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Deadline(SteadyClock::time_point at) : at_(at) {}
  // The same; nothing is never.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Deadline(std::optional<SteadyClock::time_point> at)
      : at_(at.value_or(SteadyClock::time_point::max())) {}

  static Deadline Never() { return {}; }
  // `duration` from now; one that the clock cannot hold never passes, one below zero has passed.
  static Deadline After(SteadyClock::duration duration) {
    const auto now = SteadyClock::now();
    if (duration >= SteadyClock::time_point::max() - now) return Never();
    return now + std::max(duration, SteadyClock::duration::zero());
  }

  [[nodiscard]] bool never() const { return at_ == SteadyClock::time_point::max(); }
  [[nodiscard]] SteadyClock::time_point at() const { return at_; }
  [[nodiscard]] bool passed(SteadyClock::time_point now = SteadyClock::now()) const {
    return at_ <= now;
  }
  // Zero once it has passed; the longest duration for one that never does.
  [[nodiscard]] SteadyClock::duration left(SteadyClock::time_point now = SteadyClock::now()) const {
    if (never()) return SteadyClock::duration::max();
    return passed(now) ? SteadyClock::duration::zero() : at_ - now;
  }
  // What poll(2) takes: milliseconds, rounded up so that the deadline has passed when they are
  // over; -1 for never. No more than an int holds (24 days).
  [[nodiscard]] int poll_milliseconds(SteadyClock::time_point now = SteadyClock::now()) const {
    if (never()) return -1;
    const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left(now)).count();
    return static_cast<int>(std::min<long long>(rounded, INT_MAX));
  }

  auto operator<=>(const Deadline&) const = default;

 private:
  SteadyClock::time_point at_ = SteadyClock::time_point::max();
};

}  // namespace pitcrew::base

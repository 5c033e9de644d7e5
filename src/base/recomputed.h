// A value that is made anew from what several threads change, each time one of them has changed
// something of it: for example out of the stores of two watches.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace pitcrew::base {

template <class Value>
class Recomputed {
 public:
  Recomputed() : value_(std::make_shared<const Value>()) {}

  // Never null.
  [[nodiscard]] std::shared_ptr<const Value> Get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  // `make` returns the Value by what it reads then. One thread at a time: else one that read
  // earlier could replace what a later one has made, and a change would be lost until the next.
  template <class Make>
  void Recompute(Make&& make) {
    const std::lock_guard one_at_a_time(making_);
    auto made = std::make_shared<const Value>(std::forward<Make>(make)());
    const std::lock_guard lock(mutex_);
    value_ = std::move(made);
  }

 private:
  std::mutex making_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Value> value_;
};

}  // namespace pitcrew::base

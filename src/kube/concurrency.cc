#include "kube/concurrency.h"

#include <algorithm>
#include <utility>

namespace pitcrew::kube {
namespace {

// A round has so many answers for each call in flight, and so many at least: the mean of fewer is
// mostly chance (a server that flushes its disk answers nobody for some milliseconds).
constexpr int kAnswersPerCall = 4;
constexpr int kFewestAnswers = 48;
// Rounds between two tries: short at first, because a try may have failed by chance.
constexpr int kShortestRest = 2;
constexpr int kLongestRest = 32;
// After a refusal the server gets that many rounds of peace.
constexpr int kRestAfterRefusal = 8;
// Throughput that has fallen below this part of what it was: the server has become slower.
constexpr double kSlowedDown = 0.7;
// Weight of a new round in the smoothed throughput.
constexpr double kNewShare = 0.3;

}  // namespace

void ConcurrencyLimit::Answered(Duration latency, int in_flight) {
  if (skipped_ > 0) {
    --skipped_;
    return;
  }
  // Not enough work for the limit to matter.
  if (in_flight * 4 < limit_ * 3) return;
  spent_ += latency;
  if (++answers_ < std::max(kFewestAnswers, kAnswersPerCall * limit_)) return;
  const double mean = std::chrono::duration<double>(spent_).count() / answers_;
  answers_ = 0;
  spent_ = {};
  EndRound(limit_ / std::max(mean, 1e-9));
}

void ConcurrencyLimit::EndRound(double throughput) {
  if (!base_) {
    const bool slower = throughput < settled_ * kSlowedDown;
    // One slow round may be chance, or half of it from before: the next one tells.
    if (slower && !suspected_) {
      suspected_ = true;
      return;
    }
    suspected_ = false;
    settled_ = settled_ == 0 ? throughput : settled_ + (throughput - settled_) * kNewShare;
    if (rest_ > 0) --rest_;
    if (rest_ > 0 && !slower) return;
    // One step up; when everything has become slower, one step down: if that costs nothing, the
    // calls have only been waiting.
    base_ = Level{.limit = limit_, .throughput = slower ? throughput : settled_};
    MoveTo(slower ? limit_ / 2 : limit_ * 2);
    if (limit_ == base_->limit) Settle(*base_);
    return;
  }
  const bool up = limit_ > base_->limit;
  // Going down is right unless it costs what going up would have to bring.
  const bool better = up ? throughput >= base_->throughput * (1 + options_.worthwhile)
                         : throughput * (1 + options_.worthwhile) >= base_->throughput;
  const bool first = std::exchange(first_, false);
  if (!better) {
    const Level base = *base_;
    if (up && first) return MoveTo(base.limit / 2);
    MoveTo(base.limit);
    Settle(base);
    return;
  }
  next_rest_ = 0;
  // Down, each step is compared with the best of all: many small losses are a large one.
  base_ = Level{.limit = limit_,
                .throughput = up ? throughput : std::max(throughput, base_->throughput)};
  MoveTo(up ? limit_ * 2 : limit_ / 2);
  if (limit_ == base_->limit) Settle(*base_);
}

void ConcurrencyLimit::Settle(Level level) {
  settled_ = level.throughput;
  next_rest_ = std::clamp(next_rest_ * 2, kShortestRest, kLongestRest);
  rest_ = next_rest_;
  base_.reset();
}

void ConcurrencyLimit::MoveTo(int limit) {
  const int before = limit_;
  limit_ = std::clamp(limit, options_.least, options_.most);
  // The others that are under way were begun among another number.
  if (limit_ != before) skipped_ = before - 1;
  answers_ = 0;
  spent_ = {};
}

void ConcurrencyLimit::Refused() {
  first_ = false;
  // The calls in flight are refused together: that is one sign, not many.
  if (skipped_ > 0) {
    --skipped_;
    return;
  }
  const int before = limit_;
  MoveTo(limit_ / 2);
  skipped_ = before - 1;
  base_.reset();
  suspected_ = false;
  settled_ = 0;
  next_rest_ = kRestAfterRefusal;
  rest_ = kRestAfterRefusal;
}

CallPace::Turn::Turn(Turn&& other) noexcept : pace_(std::exchange(other.pace_, nullptr)) {}

CallPace::Turn::~Turn() {
  if (pace_ == nullptr) return;
  const std::scoped_lock lock(pace_->mutex_);
  --pace_->in_flight_;
  pace_->changed_.notify_one();
}

void CallPace::Turn::Answered(std::chrono::nanoseconds latency) {
  const std::scoped_lock lock(pace_->mutex_);
  const int before = pace_->limit_.limit();
  pace_->limit_.Answered(latency, pace_->in_flight_);
  if (pace_->limit_.limit() > before) pace_->changed_.notify_all();
}

void CallPace::Turn::Refused() {
  const std::scoped_lock lock(pace_->mutex_);
  pace_->limit_.Refused();
}

CallPace::Turn CallPace::Begin() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return in_flight_ < limit_.limit(); });
  ++in_flight_;
  return Turn(this);
}

int CallPace::limit() const {
  const std::scoped_lock lock(mutex_);
  return limit_.limit();
}

}  // namespace pitcrew::kube

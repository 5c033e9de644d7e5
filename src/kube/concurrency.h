// How many calls of one kind are in flight at once: found out from what the server makes of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::kube {

// The rules as a value: pure, times come from outside. With n calls in flight that take t each, a
// server answers n / t of them in a second (Little's law). While more calls bring more answers,
// there are more; when they only make each one slower, they wait in the server's queue instead of
// ours, and there are no more. So the limit doubles as long as the throughput grows with it, stays
// where it has stopped to grow, and from time to time tries one step up or, when everything has
// become slower, down. It begins with a few, as every server but a very busy one takes well: the
// way up from the least would cost the start of a large fleet half a second. Where more than these
// bring nothing, fewer are tried too. A refusal (429: too many for our priority level) halves it at
// once.
class ConcurrencyLimit {
 public:
  using Duration = std::chrono::nanoseconds;

  struct Options {
    int least = 2;
    int first = 8;
    int most = 32;
    // Of twice the calls, that is how much more throughput they must bring: with less they cost
    // everybody else's latency for next to nothing.
    double worthwhile = 0.05;
  };

  ConcurrencyLimit() : ConcurrencyLimit(Options{}) {}
  explicit ConcurrencyLimit(Options options) : options_(options), limit_(options.first) {}

  // A call has been answered. `in_flight`: how many there were when it ended, itself included.
  // Calls that had the line to themselves say nothing about more of them.
  void Answered(Duration latency, int in_flight);
  // The server has refused a call because there are too many.
  void Refused();

  [[nodiscard]] int limit() const { return limit_; }

 private:
  struct Level {
    int limit = 0;
    double throughput = 0;  // answers in a second
  };
  void EndRound(double throughput);
  void Settle(Level level);
  void MoveTo(int limit);

  Options options_;
  int limit_;
  // Of the present round: as many answers as make a fair mean at this limit.
  int answers_ = 0;
  Duration spent_{0};
  int skipped_ = 0;            // answers of calls that were begun under another limit
  std::optional<Level> base_;  // while trying another limit: the one to compare with
  double settled_ = 0;         // otherwise: the throughput at this limit, smoothed
  bool suspected_ = false;     // the last round was much slower
  bool first_ = true;          // the limit is still the first: nobody knows whether fewer would do
  int rest_ = 0;               // rounds until the next try
  int next_rest_ = 0;
};

// A ConcurrencyLimit for several threads: each call waits for its turn. Thread-safe.
class CallPace {
 public:
  explicit CallPace(ConcurrencyLimit limit = ConcurrencyLimit()) : limit_(limit) {}

  // One call's turn; the end of this object gives it back.
  class Turn {
   public:
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    // How the try that has just been made has ended.
    void Answered(std::chrono::nanoseconds latency);
    void Refused();

   private:
    friend class CallPace;
    explicit Turn(CallPace* pace) : pace_(pace) {}
    CallPace* pace_;  // null: moved from
  };
  // Waits until fewer calls than the limit are in flight.
  Turn Begin();

  [[nodiscard]] int limit() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ConcurrencyLimit limit_;
  int in_flight_ = 0;
};

}  // namespace pitcrew::kube

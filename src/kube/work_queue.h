// Keys that wait to be worked on: each at most once in the queue and with at most one worker.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/deadline.h"
#include "kube/resource.h"
#include "kube/retry.h"

namespace pitcrew::kube {

// Keys of an initial list wait with kLow, so that news overtakes them.
enum class Priority { kLow, kNormal };

// The queue's rules as a value: pure, the time comes from outside. A key has one entry; adding it
// again keeps the earlier time and the higher priority. A key that is with a worker is given out
// again only after Done.
class QueueState {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit QueueState(BackoffPolicy backoff) : backoff_(backoff) {}

  void Add(const ObjectKey& key, Priority priority, TimePoint ready_at, TimePoint now);
  // Counts a failure and adds the key after the failure's back-off.
  void AddRateLimited(const ObjectKey& key, TimePoint now);
  // Forgets the key's failures.
  void Forget(const ObjectKey& key);
  // The next ready key, which then belongs to the caller until Done.
  std::optional<ObjectKey> Take(TimePoint now);
  void Done(const ObjectKey& key, TimePoint now);
  // Keys whose time has come become ready.
  void Promote(TimePoint now);

  // When a waiting key becomes ready; none when no key waits for a time.
  [[nodiscard]] std::optional<TimePoint> NextReady() const;
  [[nodiscard]] int failures(const ObjectKey& key) const;
  [[nodiscard]] std::size_t ready() const { return ready_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] std::size_t in_work() const { return in_work_.size(); }

 private:
  enum class Place { kReady, kWaiting, kHeld };  // held: until its worker is done
  struct Entry {
    Priority priority = Priority::kNormal;
    TimePoint ready_at;
    std::uint64_t order = 0;  // of arrival
    Place place = Place::kHeld;
  };
  void Settle(const ObjectKey& key, Entry& entry, TimePoint now);
  void Unplace(const Entry& entry);

  BackoffPolicy backoff_;
  std::uint64_t arrivals_ = 0;
  std::unordered_map<ObjectKey, Entry> entries_;
  std::map<std::pair<int, std::uint64_t>, ObjectKey> ready_;          // by priority, then arrival
  std::map<std::pair<TimePoint, std::uint64_t>, ObjectKey> waiting_;  // by time
  std::set<ObjectKey> in_work_;
  std::unordered_map<ObjectKey, int> failures_;
};

// QueueState with a lock and a real clock. Thread-safe.
class WorkQueue {
 public:
  // Default back-off: 100 ms doubling to 3 s per key.
  explicit WorkQueue(BackoffPolicy backoff = {}) : state_(backoff) {}

  void Add(const ObjectKey& key, Priority priority = Priority::kNormal);
  void AddAfter(const ObjectKey& key, std::chrono::nanoseconds delay);
  void AddRateLimited(const ObjectKey& key);
  void Forget(const ObjectKey& key);
  // Waits for a key; nothing once the queue is shut down. The caller owes Done(key).
  std::optional<ObjectKey> Take();
  void Done(const ObjectKey& key);

  // Helpers come beside those who wait in Take, when keys are ready and all of these are busy, at
  // most `most` of them at a time. From now on `call` is called whenever one may be wanted, the
  // queue being locked, and no more once it is shut down.
  void CallHelpers(int most, std::function<void()> call);
  // A key for one helper more, which then belongs to it until Done; nothing where none is wanted.
  std::optional<ObjectKey> TakeAsHelper();
  // When to ask for one again though nobody calls: then a key becomes ready that nobody waits for.
  [[nodiscard]] base::Deadline NextForHelper() const;
  // For a helper that is done with its key: another one that is ready now. Nothing: it has left.
  std::optional<ObjectKey> TakeOrLeave();

  // From now on Take gives nothing and Add does nothing.
  void ShutDown();
  struct Counts {
    std::size_t depth = 0;      // keys that are ready now
    std::uint64_t adds = 0;     // so far, also of keys that were there already
    std::uint64_t retries = 0;  // of them after failures
  };
  [[nodiscard]] Counts counts() const;
  // Keys that are ready or wait for their time.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] int failures(const ObjectKey& key) const;

 private:
  void CallHelperIfWanted();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  QueueState state_;
  std::size_t idle_ = 0;  // who waits in Take, also when about to wake up
  int helpers_ = 0;
  int most_helpers_ = 0;
  std::function<void()> call_helper_;
  std::uint64_t adds_ = 0;
  std::uint64_t retries_ = 0;
  bool shut_down_ = false;
};

}  // namespace pitcrew::kube

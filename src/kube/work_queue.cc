#include "kube/work_queue.h"

#include <algorithm>

namespace pitcrew::kube {

void QueueState::Unplace(const Entry& entry) {
  if (entry.place == Place::kReady) {
    ready_.erase({-static_cast<int>(entry.priority), entry.order});
  } else if (entry.place == Place::kWaiting) {
    waiting_.erase({entry.ready_at, entry.order});
  }
}

void QueueState::Settle(const ObjectKey& key, Entry& entry, TimePoint now) {
  if (in_work_.contains(key)) {
    entry.place = Place::kHeld;
  } else if (entry.ready_at <= now) {
    entry.place = Place::kReady;
    ready_[{-static_cast<int>(entry.priority), entry.order}] = key;
  } else {
    entry.place = Place::kWaiting;
    waiting_[{entry.ready_at, entry.order}] = key;
  }
}

void QueueState::Add(const ObjectKey& key, Priority priority, TimePoint ready_at, TimePoint now) {
  const auto [known, fresh] = entries_.try_emplace(
      key, Entry{.priority = priority, .ready_at = ready_at, .order = arrivals_, .place = {}});
  Entry& entry = known->second;
  if (fresh) {
    ++arrivals_;
  } else {
    Unplace(entry);
    entry.priority = std::max(entry.priority, priority);
    entry.ready_at = std::min(entry.ready_at, ready_at);
  }
  Settle(key, entry, now);
}

void QueueState::AddRateLimited(const ObjectKey& key, TimePoint now) {
  const int failures = ++failures_[key];
  Add(key, Priority::kNormal, now + backoff_.Delay(failures), now);
}

void QueueState::Forget(const ObjectKey& key) { failures_.erase(key); }

void QueueState::Promote(TimePoint now) {
  while (!waiting_.empty() && waiting_.begin()->first.first <= now) {
    const ObjectKey key = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    Settle(key, entries_.at(key), now);
  }
}

std::optional<ObjectKey> QueueState::Take(TimePoint now) {
  Promote(now);
  if (ready_.empty()) return std::nullopt;
  ObjectKey key = std::move(ready_.begin()->second);
  ready_.erase(ready_.begin());
  entries_.erase(key);
  in_work_.insert(key);
  return key;
}

void QueueState::Done(const ObjectKey& key, TimePoint now) {
  in_work_.erase(key);
  if (const auto entry = entries_.find(key); entry != entries_.end()) {
    Settle(key, entry->second, now);
  }
}

std::optional<QueueState::TimePoint> QueueState::NextReady() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first.first;
}

int QueueState::failures(const ObjectKey& key) const {
  const auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

void WorkQueue::Add(const ObjectKey& key, Priority priority) {
  const std::scoped_lock lock(mutex_);
  if (shut_down_) return;
  const auto now = std::chrono::steady_clock::now();
  ++adds_;
  state_.Add(key, priority, now, now);
  changed_.notify_one();
  CallHelperIfWanted();
}

void WorkQueue::AddAfter(const ObjectKey& key, std::chrono::nanoseconds delay) {
  const std::scoped_lock lock(mutex_);
  if (shut_down_) return;
  const auto now = std::chrono::steady_clock::now();
  ++adds_;
  state_.Add(key, Priority::kNormal, now + delay, now);
  changed_.notify_one();
  CallHelperIfWanted();
}

void WorkQueue::AddRateLimited(const ObjectKey& key) {
  const std::scoped_lock lock(mutex_);
  if (shut_down_) return;
  ++adds_;
  ++retries_;
  state_.AddRateLimited(key, std::chrono::steady_clock::now());
  changed_.notify_one();
  CallHelperIfWanted();
}

void WorkQueue::Forget(const ObjectKey& key) {
  const std::scoped_lock lock(mutex_);
  state_.Forget(key);
}

std::optional<ObjectKey> WorkQueue::Take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (shut_down_) return std::nullopt;
    if (auto key = state_.Take(std::chrono::steady_clock::now())) {
      // Further keys may have become ready with this one, and who takes it may have been the one
      // that watched the time for all.
      if (state_.ready() > 0 || state_.waiting() > 0) changed_.notify_one();
      CallHelperIfWanted();
      return key;
    }
    ++idle_;
    if (const auto next = state_.NextReady()) {
      changed_.wait_until(lock, *next);
    } else {
      changed_.wait(lock);
    }
    --idle_;
  }
}

void WorkQueue::CallHelpers(int most, std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  most_helpers_ = most;
  call_helper_ = std::move(call);
}

void WorkQueue::CallHelperIfWanted() {
  if (shut_down_ || helpers_ >= most_helpers_) return;
  const bool nobody_watches_the_time = idle_ == 0 && state_.waiting() > 0;
  if (state_.ready() > idle_ || nobody_watches_the_time) call_helper_();
}

std::optional<ObjectKey> WorkQueue::TakeAsHelper() {
  const std::scoped_lock lock(mutex_);
  if (shut_down_ || helpers_ >= most_helpers_) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  state_.Promote(now);
  if (state_.ready() <= idle_) return std::nullopt;
  ++helpers_;
  return state_.Take(now);
}

base::Deadline WorkQueue::NextForHelper() const {
  const std::scoped_lock lock(mutex_);
  if (idle_ > 0 || helpers_ >= most_helpers_) return base::Deadline::Never();
  return state_.NextReady();
}

std::optional<ObjectKey> WorkQueue::TakeOrLeave() {
  const std::scoped_lock lock(mutex_);
  if (!shut_down_) {
    if (auto key = state_.Take(std::chrono::steady_clock::now())) return key;
  }
  --helpers_;
  CallHelperIfWanted();
  return std::nullopt;
}

void WorkQueue::Done(const ObjectKey& key) {
  const std::scoped_lock lock(mutex_);
  state_.Done(key, std::chrono::steady_clock::now());
  changed_.notify_one();
}

void WorkQueue::ShutDown() {
  const std::scoped_lock lock(mutex_);
  shut_down_ = true;
  changed_.notify_all();
}

WorkQueue::Counts WorkQueue::counts() const {
  const std::scoped_lock lock(mutex_);
  return {.depth = state_.ready(), .adds = adds_, .retries = retries_};
}

std::size_t WorkQueue::size() const {
  const std::scoped_lock lock(mutex_);
  return state_.ready() + state_.waiting();
}

int WorkQueue::failures(const ObjectKey& key) const {
  const std::scoped_lock lock(mutex_);
  return state_.failures(key);
}

}  // namespace pitcrew::kube

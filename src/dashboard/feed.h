// What the pages of a fleet are sent: the whole once, then only what changes. Readers take it at
// their own pace; nothing is kept for any of them, so one that is slow or dead costs no memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "dashboard/picture.h"

namespace pitcrew::dashboard {

// One of server-sent events.
struct FeedMessage {
  std::string id;     // what a reader that comes back has seen last
  bool whole = true;  // the fleet as it is; otherwise what has changed since the message before
  std::shared_ptr<const std::string> json;  // WholeOf or ChangeBetween
};

// Thread-safe.
class Feed {
 public:
  // `kept_bytes`: so much of what has changed is kept for readers that are behind; one that is
  // further behind gets the whole again.
  explicit Feed(std::size_t kept_bytes = std::size_t{8} << 20U);

  // The fleet as it is now. Wakes the readers when it differs.
  void Publish(Picture picture);
  // Readers get nothing more; for the end of the program.
  void Close();

  // The message after the one with the id `seen` ("", or one that is not of this feed: the whole).
  // Waits for it until `deadline`: nothing when there was none, or the feed is closed.
  std::optional<FeedMessage> Next(std::string_view seen,
                                  base::SteadyClock::time_point deadline) const;
  [[nodiscard]] bool closed() const;
  // WholeOf the last picture; null before the first one.
  [[nodiscard]] std::shared_ptr<const std::string> Whole() const;

 private:
  [[nodiscard]] std::optional<std::uint64_t> VersionOf(std::string_view id) const;
  [[nodiscard]] std::shared_ptr<const std::string> WholeLocked() const;
  [[nodiscard]] FeedMessage MessageAfter(std::optional<std::uint64_t> seen) const;

  const std::size_t kept_bytes_;
  // Another process has another one: what a reader has seen of that is nothing to this one.
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool closed_ = false;
  std::uint64_t version_ = 0;  // 0: no picture yet
  Picture picture_;
  // The change that led to version_ is the last one.
  std::deque<std::shared_ptr<const std::string>> changes_;
  std::size_t bytes_ = 0;  // of changes_
  // Only while somebody holds it.
  mutable std::weak_ptr<const std::string> whole_;
};

}  // namespace pitcrew::dashboard

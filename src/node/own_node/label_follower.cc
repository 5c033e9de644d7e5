#include "node/own_node/label_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/deadline.h"
#include "base/log.h"

namespace pitcrew::node::own_node {
namespace {

class Follower {
 public:
  Follower(LabelWatch& watch, const FollowSettings& settings, const io::StopToken& stop)
      : watch_(watch), settings_(settings), stop_(stop) {}

  base::Status Run() {
    while (true) {
      Follow();
      if (stop_.stopped()) return {};
      // Another value may have come in the middle of a change; nothing rings for it again.
      if (const auto wanted = Wanted(); wanted && *wanted != last_) continue;
      TRY_ASSIGN(const bool go_on, WaitForReason());
      if (!go_on) return {};
    }
  }

 private:
  // "" when nothing is asked for; nullopt: not known.
  [[nodiscard]] std::optional<std::string> Wanted() const {
    const auto value = watch_.Value(settings_.label);
    if (value.is_unknown()) return std::nullopt;
    if (value.is_present() && !value.value()->empty()) return *value.value();
    return settings_.fallback;
  }

  void Follow() {
    watch_.Take();
    const auto wanted = Wanted();
    if (!wanted) return;
    // Nothing being asked for is looked after at every look.
    const bool same = *wanted == last_;
    if (same && !wanted->empty() && !(failed_ && look_again_)) return;
    if (!same) failures_ = 0;
    look_again_ = false;
    last_ = *wanted;
    const Followed end = wanted->empty() ? TidyUp() : settings_.apply(*wanted);
    if (end == Followed::kAbandoned) last_.clear();
    failed_ = end == Followed::kFailed || end == Followed::kMayPass;
    failures_ = end == Followed::kMayPass ? failures_ + 1 : 0;
  }

  Followed TidyUp() const {
    if (!settings_.nothing_wanted || settings_.nothing_wanted()) return Followed::kDone;
    return Followed::kMayPass;
  }

  // False on stop.
  base::Result<bool> WaitForReason() {
    base::Deadline retry;
    if (failures_ > 0) {
      retry = base::Deadline::After(std::min(
          settings_.first_retry * (1 << std::min(failures_ - 1, 10)), settings_.longest_retry));
    }
    while (true) {
      const auto ready =
          io::WaitReadable({watch_.fd(), settings_.fds[0], settings_.fds[1]}, stop_, retry);
      if (!ready && ready.error().code == base::Code::kCancelled) return false;
      if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
      if (ready && *ready != 0) {
        TRY_ASSIGN(const bool changed, settings_.take());
        if (!changed || !failed_) continue;
      }
      // A person who sets the label again after a failure, a repaired file, the time.
      look_again_ = true;
      return true;
    }
  }

  LabelWatch& watch_;
  const FollowSettings& settings_;
  const io::StopToken& stop_;

  std::string last_;         // the value that was dealt with last
  bool failed_ = false;      // and it failed
  int failures_ = 0;         // one after another, for a reason that may pass
  bool look_again_ = false;  // something has changed that a failure may have been about
};

}  // namespace

Followed AfterFailure(const base::Error& error) {
  switch (error.code) {
    case base::Code::kUnavailable:
    case base::Code::kTooMany:
    case base::Code::kTimeout:
    case base::Code::kGone:
    case base::Code::kConflict:
      return Followed::kMayPass;
    default:
      return Followed::kFailed;
  }
}

base::Error WithFailedRecovery(const base::Error& error, const base::Error& recovery) {
  base::LogError("An earlier change is still half done", recovery);
  if (error.code == base::Code::kCancelled) return error;
  return base::Unavailable(
      "RollbackFailed",
      fmt::format("{}; an earlier change is still half done: {}", error.message, recovery.message));
}

bool IsChangeOf(const std::filesystem::path& config, const io::FileChange& change) {
  return change.name.empty() || change.name == "..data" || change.name == config.filename();
}

base::Status FollowLabel(LabelWatch& watch, const FollowSettings& settings,
                         const io::StopToken& stop) {
  return Follower(watch, settings, stop).Run();
}

}  // namespace pitcrew::node::own_node

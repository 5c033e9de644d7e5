#include "node/toolkit/follow_node.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "io/file_watcher.h"
#include "kube/retry.h"
#include "node/toolkit/cdi_specs.h"
#include "node/validations/mig_change.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr std::chrono::seconds kQuiet{1};
// Events without an end do not put it off for ever.
constexpr std::chrono::seconds kLongest{10};
constexpr kube::BackoffPolicy kPauses{.base = std::chrono::seconds(1),
                                      .cap = std::chrono::minutes(1)};

class NodeFollower {
 public:
  NodeFollower(const Options& options, const io::StopToken& stop) : options_(options), stop_(stop) {
    Start("Changes of the MIG geometry are not followed", WatchValidations());
    auto events = host::UeventReceiver::Create();
    if (events) {
      events_ = *std::move(events);
    } else {
      Start("Drivers and GPUs that come and go are not followed", base::Fail(events.error()));
    }
  }

  void Run() {
    WriteAnew();
    while (!stop_.stopped()) {
      const auto woken = io::WaitReadable(
          {files_ ? files_->fd() : -1, events_ ? events_->fd() : -1}, stop_, Deadline());
      if (!woken && woken.error().code == base::Code::kTimeout) {
        WriteAnew();
      } else if (!woken) {
        // Nothing can be waited for: what the node does is not known any more.
        stop_.Wait();
      } else {
        Look();
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  static void Start(std::string_view what, const base::Status& started) {
    if (!started) base::LogInfo(what, {{"why", started.error().message}});
  }

  base::Status WatchValidations() {
    TRY_ASSIGN(auto files, io::FileWatcher::Create());
    TRY(files.Watch(options_.validations));
    files_ = std::move(files);
    return {};
  }

  [[nodiscard]] base::Deadline Deadline() const {
    if (!first_change_) return retry_at_;
    return std::min(*last_change_ + kQuiet, *first_change_ + kLongest);
  }

  void Look() {
    if (files_) {
      const auto changes = files_->Take();
      // Pods wait for the new devices: it is done at once.
      if (changes && std::ranges::any_of(*changes, [](const io::FileChange& change) {
            return change.name.empty() || change.name == validations::kMigChange;
          })) {
        failures_ = 0;
        WriteAnew();
      }
    }
    if (!events_) return;
    const auto batch = events_->Take();
    if (!batch || (!batch->lost && std::ranges::none_of(batch->events, ConcernsGpus))) return;
    last_change_ = Clock::now();
    if (!first_change_) first_change_ = last_change_;
    failures_ = 0;
  }

  // While GPUs are being divided, the end of that is another change.
  void WriteAnew() {
    first_change_.reset();
    retry_at_.reset();
    const auto changing =
        validations::ReadMigChange(validations::StatusFolder(options_.validations));
    if (changing && !changing->empty()) return;
    const auto written = WriteCdiSpecs(options_);
    auto missing = written ? *written : std::vector<base::Error>{written.error()};
    for (const auto& error : missing) {
      if (std::ranges::find(missing_, error) != missing_.end()) continue;
      base::LogWarning(written ? kNotRequestable : "CDI specifications stay as they are", error);
    }
    missing_ = std::move(missing);
    if (missing_.empty()) return;
    retry_at_ = Clock::now() + kPauses.Delay(++failures_);
  }

  const Options& options_;
  const io::StopToken& stop_;
  std::optional<io::FileWatcher> files_;
  std::optional<host::UeventReceiver> events_;
  std::optional<Clock::time_point> first_change_;
  std::optional<Clock::time_point> last_change_;
  std::vector<base::Error> missing_;  // after the last try
  int failures_ = 0;                  // since the last change
  std::optional<Clock::time_point> retry_at_;
};

}  // namespace

bool ConcernsGpus(const host::Uevent& event) {
  if (event.subsystem() == "module") return event.device_path.starts_with("/module/nvidia");
  if (event.subsystem() != "pci") return false;
  const auto id = event.fields.find("PCI_ID");
  return id != event.fields.end() && id->second.starts_with("10DE:");
}

void FollowNode(const Options& options, const io::StopToken& stop) {
  NodeFollower(options, stop).Run();
}

}  // namespace pitcrew::node::toolkit

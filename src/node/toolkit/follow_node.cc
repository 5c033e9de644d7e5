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
    Start("Changes of the MIG geometry are not followed", WatchFiles());
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

  base::Status WatchFiles() {
    TRY_ASSIGN(auto files, io::FileWatcher::Create());
    files_ = std::move(files);
    // The driver of a container makes its nodes without the kernel's word.
    (void)files_->Watch(DevFolderHere(options_));
    return files_->Watch(options_.validations);
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
      if (changes && std::ranges::any_of(*changes, [](const io::FileChange& change) {
            return change.name.starts_with("nvidia") &&
                   change.kind != io::FileChange::Kind::kChanged;
          })) {
        NoteChange();
      }
    }
    if (!events_) return;
    const auto batch = events_->Take();
    if (batch && (batch->lost || std::ranges::any_of(batch->events, ConcernsGpus))) NoteChange();
  }

  void NoteChange() {
    last_change_ = Clock::now();
    if (!first_change_) first_change_ = last_change_;
    failures_ = 0;
  }

  // Their driver may have been loaded since, or anew with another major.
  void MakeControlNodes() {
    const auto made = CreateControlNodes(options_);
    const auto why = made ? std::optional<base::Error>() : made.error();
    if (why && why != nodes_problem_) {
      base::LogInfo("Control device nodes are not all as they should be", {{"why", why->message}});
    }
    nodes_problem_ = why;
  }

  // While GPUs are being divided, the end of that is another change.
  void WriteAnew() {
    first_change_.reset();
    retry_at_.reset();
    const auto changing =
        validations::ReadMigChange(validations::StatusFolder(options_.validations));
    if (changing && !changing->empty()) return;
    MakeControlNodes();
    const auto written = WriteCdiSpecs(options_);
    auto missing = written ? *written : std::vector<base::Error>{written.error()};
    for (const auto& error : missing) {
      if (std::ranges::find(missing_, error) != missing_.end()) continue;
      base::LogWarning(written ? kIncomplete : "CDI specifications stay as they are", error);
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
  std::vector<base::Error> missing_;          // after the last try
  std::optional<base::Error> nodes_problem_;  // likewise
  int failures_ = 0;                          // since the last change
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

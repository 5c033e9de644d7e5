#include "node/nfd/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "host/root.h"
#include "host/uevent.h"
#include "io/file_watcher.h"
#include "io/http_server.h"
#include "kube/retry.h"
#include "node/nfd/collector.h"
#include "node/node_feature/node_feature.h"

namespace pitcrew::node::nfd {
namespace {

constexpr kube::BackoffPolicy kBackoff{
    .base = std::chrono::milliseconds(500), .cap = std::chrono::milliseconds(30000), .jitter = 0.0};
// Plugging in a card makes a burst of events; one discovery answers them all.
constexpr std::chrono::milliseconds kSettleTime{200};

// What may be otherwise a moment later: permissions and the API's definitions arrive in any order
// when everything is installed at once.
bool IsTemporary(const base::Error& error) {
  return error.code != base::Code::kInvalid && error.code != base::Code::kCancelled;
}

// Tells which sources have to look again, as files and devices change.
class ChangeWatcher {
 public:
  static base::Result<ChangeWatcher> Create(const HostPaths& paths) {
    TRY_ASSIGN(auto files, io::FileWatcher::Create());
    ChangeWatcher watcher(paths, std::move(files));
    auto events = host::UeventReceiver::Create();
    if (events) {
      watcher.events_.emplace(*std::move(events));
    } else {
      base::LogInfo("Device changes are seen at the interval only",
                    {{"reason", events.error().message}});
    }
    watcher.WatchFolders();
    return watcher;
  }

  [[nodiscard]] int files_fd() const { return files_.fd(); }
  // -1 where the kernel does not tell.
  [[nodiscard]] int events_fd() const { return events_ ? events_->fd() : -1; }

  // The sources that the waiting changes concern.
  base::Result<std::set<std::string>> Take() {
    std::set<std::string> sources;
    TRY_ASSIGN(const auto changes, files_.Take());
    for (const auto& change : changes) {
      sources.insert(change.folder == pci_folder_ ? "pci" : "local");
    }
    if (!changes.empty()) WatchFolders();
    if (!events_) return sources;
    TRY_ASSIGN(const auto batch, events_->Take());
    if (batch.lost) sources.insert({"pci", "kernel"});
    for (const auto& event : batch.events) {
      if (event.subsystem() == "pci") sources.insert("pci");
      if (event.subsystem() == "module") sources.insert("kernel");
    }
    return sources;
  }

 private:
  ChangeWatcher(const HostPaths& paths, io::FileWatcher files)
      : features_folder_(paths.features),
        pci_folder_(paths.sys / "bus/pci/devices"),
        files_(std::move(files)) {}

  // features.d may be made later: then its nearest existing parent is watched meanwhile.
  void WatchFolders() {
    auto folder = features_folder_;
    while (!files_.Watch(folder) && folder.has_relative_path()) folder = folder.parent_path();
    // sysfs tells nothing here, but a tree that stands in for it does.
    if (const auto watched = files_.Watch(pci_folder_);
        !watched && watched.error().code != base::Code::kNotFound) {
      base::LogDebug("The PCI folder cannot be watched", {{"reason", watched.error().message}});
    }
  }

  std::filesystem::path features_folder_;
  std::filesystem::path pci_folder_;
  io::FileWatcher files_;
  std::optional<host::UeventReceiver> events_;
};

class Worker {
 public:
  Worker(const WorkerOptions& options, std::shared_ptr<kube::Client> client)
      : options_(options),
        client_(std::move(client)),
        collector_(options.config, options.paths, options.identity.node_name) {
    if (client_) {
      writer_.emplace(client_,
                      kube::ObjectKey{options.identity.namespace_name, options.identity.node_name});
    }
  }

  base::Status Run(const io::StopToken& stop) {
    TRY(Retried(stop, [&] { return Prepare(stop); }));
    // Watching begins before the first look: nothing falls between.
    TRY_ASSIGN(auto watcher, ChangeWatcher::Create(options_.paths));
    collector_.DiscoverAll(base::WallClock::now());
    TRY(Retried(stop, [&] { return Publish(stop); }));
    if (options_.oneshot) return {};
    TRY_ASSIGN(const auto server,
               io::HttpServer::Start(fmt::format(":{}", options_.port),
                                     {{"/healthz", [] { return io::HttpAnswer{}; }}}));
    return Follow(watcher, stop);
  }

 private:
  template <class Try>
  base::Status Retried(const io::StopToken& stop, Try attempt) {
    for (int failures = 1;; ++failures) {
      const base::Status done = attempt();
      if (done || options_.oneshot || !IsTemporary(done.error())) return done;
      base::LogWarning("The API server cannot be used; trying again", done.error());
      if (stop.WaitFor(kBackoff.Delay(failures))) return done;
    }
  }

  base::Status Prepare(const io::StopToken& stop) {
    if (!writer_) return {};
    TRY_ASSIGN(owners_, ResolveOwners(*client_, options_.identity, options_.config.owners, stop));
    TRY_ASSIGN(const auto spec, writer_->CurrentSpec(stop));
    collector_.Restore(spec);
    return {};
  }

  base::Status Publish(const io::StopToken& stop) {
    if (!writer_) return {};
    const auto desired = MakeNodeFeature(options_.identity, owners_, collector_.Spec());
    TRY_ASSIGN(const auto outcome, writer_->Publish(desired, stop));
    if (outcome != node_feature::Outcome::kUnchanged) {
      base::LogInfo("The NodeFeature is written", {{"node", options_.identity.node_name}});
    }
    return {};
  }

  // One pass per interval, change or expiry; a failed publication is tried again after a back-off.
  base::Status Follow(ChangeWatcher& watcher, const io::StopToken& stop) {
    auto next_pass = NextPass();
    base::Deadline settled;  // when pending changes are looked at
    base::Deadline retry;    // when the publication is tried again
    std::set<std::string> pending;
    int failures = 0;
    while (true) {
      const auto deadline = std::min({next_pass, settled, retry, Expiry()});
      const auto ready =
          io::WaitReadable({watcher.files_fd(), watcher.events_fd()}, stop, deadline);
      if (!ready && ready.error().code == base::Code::kCancelled) return {};
      if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
      if (ready) {
        TRY_ASSIGN(auto sources, watcher.Take());
        pending.merge(sources);
        if (!pending.empty() && settled.never()) settled = base::Deadline::After(kSettleTime);
        continue;
      }
      if (next_pass.passed()) {
        collector_.DiscoverAll(base::WallClock::now());
        next_pass = NextPass();
      } else {
        const auto expiry = collector_.next_expiry();
        if (expiry && *expiry < base::WallClock::now()) pending.insert("local");
        for (const auto& source : pending) collector_.Discover(source, base::WallClock::now());
      }
      pending.clear();
      settled = {};
      const auto published = Publish(stop);
      if (published) {
        failures = 0;
        retry = {};
        continue;
      }
      if (published.error().code == base::Code::kCancelled) return {};
      base::LogError("The NodeFeature could not be written; trying again", published.error());
      retry = base::Deadline::After(kBackoff.Delay(++failures));
    }
  }

  [[nodiscard]] base::Deadline NextPass() const {
    if (options_.config.sleep_interval.count() <= 0) return base::Deadline::Never();
    return base::Deadline::After(options_.config.sleep_interval);
  }

  // The next expiry of a feature line on the steady clock, a moment later so that it has passed.
  [[nodiscard]] base::Deadline Expiry() const {
    const auto expiry = collector_.next_expiry();
    if (!expiry) return base::Deadline::Never();
    constexpr std::chrono::milliseconds kAfter{10};
    return base::Deadline::After(*expiry - base::WallClock::now() + kAfter);
  }

  const WorkerOptions& options_;
  std::shared_ptr<kube::Client> client_;
  std::optional<node_feature::Writer> writer_;
  Collector collector_;
  codec::Json owners_ = codec::Json::array();
};

}  // namespace

base::Status RunWorker(const WorkerOptions& options, std::shared_ptr<kube::Client> client,
                       const io::StopToken& stop) {
  return Worker(options, std::move(client)).Run(stop);
}

}  // namespace pitcrew::node::nfd

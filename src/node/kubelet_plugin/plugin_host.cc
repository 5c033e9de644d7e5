#include "node/kubelet_plugin/plugin_host.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/bell.h"
#include "base/log.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/kubelet_plugin/resource.h"

namespace pitcrew::node::kubelet_plugin {
namespace {

class ThreadedHost final : public PluginHost {
 public:
  ThreadedHost(HostOptions options, io::FileWatcher watcher, base::Bell changed)
      : options_(std::move(options)),
        watcher_(std::move(watcher)),
        changed_(std::move(changed)),
        thread_([this] { Run(); }) {}

  ~ThreadedHost() override {
    stop_.Stop();
    thread_.join();
  }

  void Offer(const std::string& resource, const std::string& socket_name,
             rpc::DevicePluginHandler& handler, std::vector<rpc::PluginDevice> devices) override {
    {
      const std::lock_guard lock(mutex_);
      auto& offered = resources_[resource];
      if (offered) return offered->Publish(std::move(devices));
      offered = std::make_unique<Resource>(resource, socket_name, handler, std::move(devices),
                                           options_, [this] { Ring(); });
    }
    Ring();
  }

  void Publish(const std::string& resource, std::vector<rpc::PluginDevice> devices) override {
    const std::lock_guard lock(mutex_);
    const auto found = resources_.find(resource);
    if (found != resources_.end()) found->second->Publish(std::move(devices));
  }

  void Withdraw(const std::string& resource) override {
    std::unique_ptr<Resource> withdrawn;
    {
      const std::lock_guard lock(mutex_);
      const auto found = resources_.find(resource);
      if (found == resources_.end()) return;
      withdrawn = std::move(found->second);
      resources_.erase(found);
    }
    base::LogInfo("no longer offered", {{"resource", resource}});
  }

 private:
  void Ring() const { changed_.Ring(); }

  void Run() {
    std::optional<base::SteadyClock::time_point> next_try;
    while (true) {
      const auto woken = io::WaitReadable({changed_.fd(), watcher_.fd()}, stop_.token(), next_try);
      if (!woken && woken.error().code != base::Code::kTimeout) return;
      changed_.Silence();
      // Whatever has happened to the sockets, they are looked at as they are now.
      if (const auto changes = watcher_.Take(); !changes) {
        base::LogWarning("changes of the plugins' folder cannot be read", changes.error());
      }
      next_try = AdvanceAll();
    }
  }

  std::optional<base::SteadyClock::time_point> AdvanceAll() {
    // A folder that was made anew is another folder to inotify.
    if (const auto watched = watcher_.Watch(options_.folder); !watched) {
      base::LogWarning("the plugins' folder cannot be watched", watched.error());
    }
    const auto kubelet = FileIdentity::Of(options_.kubelet_socket);
    const auto now = base::SteadyClock::now();
    std::optional<base::SteadyClock::time_point> next;
    const std::lock_guard lock(mutex_);
    for (const auto& [name, resource] : resources_) {
      resource->Advance(kubelet, now);
      const auto due = resource->next_try();
      if (due) next = next ? std::min(*next, *due) : *due;
    }
    return next;
  }

  const HostOptions options_;
  io::FileWatcher watcher_;
  const base::Bell changed_;
  const io::StopSource stop_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Resource>> resources_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace

base::Result<std::unique_ptr<PluginHost>> PluginHost::Start(HostOptions options) {
  TRY_ASSIGN(auto watcher, io::FileWatcher::Create());
  TRY(watcher.Watch(options.folder));
  TRY_ASSIGN(auto changed, base::Bell::Create());
  return std::make_unique<ThreadedHost>(std::move(options), std::move(watcher), std::move(changed));
}

}  // namespace pitcrew::node::kubelet_plugin

#include "node/toolkit/nri_plugin.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "io/file_watcher.h"
#include "node/toolkit/nri_devices.h"
#include "nri/plugin.h"

namespace pitcrew::node::toolkit {
namespace {

// A socket that appears is told by inotify; that somebody listens on it is not.
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{1000};

class Devices final : public nri::Handler {
 public:
  explicit Devices(const NriOptions& options) : options_(options) {}

  base::Status Configure(const nri::Runtime& runtime) override {
    if (const auto why = WhyNriCannotServe(runtime)) {
      return base::Fail({base::Code::kUnsupported, "NriNotSupported", *why});
    }
    connected_ = true;
    base::LogInfo("Serving containers by NRI",
                  {{"runtime", runtime.name}, {"version", runtime.version}});
    if (NeedsCdiSwitchedOn(runtime)) {
      base::LogInfo(
          "containerd 1.7 needs enable_cdi = true in plugins.\"io.containerd.grpc.v1.cri\"; "
          "without it containers with devices fail and say so");
    }
    return {};
  }

  void TakeExisting(const nri::Container& container) override {
    const auto chosen = ChooseNriDevices(container, options_);
    const bool has_gpus = std::ranges::any_of(
        container.device_paths, [](const auto& path) { return path.starts_with("/dev/nvidia"); });
    if (chosen.names.empty() || has_gpus) return;
    base::LogWarning(
        "A container was created without its devices while the NRI plugin was away; delete its pod",
        {{"namespace", container.pod_namespace},
         {"pod", container.pod_name},
         {"container", container.name}});
  }

  base::Result<std::vector<std::string>> DevicesFor(const nri::Container& container) override {
    auto chosen = ChooseNriDevices(container, options_);
    for (const auto& refused : chosen.refused) {
      base::LogWarning("A container does not get a device that its pod asks for",
                       {{"namespace", container.pod_namespace},
                        {"pod", container.pod_name},
                        {"container", container.name},
                        {"device", refused.name},
                        {"why", refused.why}});
    }
    return std::move(chosen.names);
  }

  // Whether the runtime has taken the plugin in since the last call.
  bool TakeConnected() { return std::exchange(connected_, false); }

 private:
  const NriOptions& options_;
  bool connected_ = false;
};

}  // namespace

base::Status RunNriPlugin(const NriOptions& options, const io::StopToken& stop) {
  TRY_ASSIGN(auto watcher, io::FileWatcher::Create());
  Devices devices(options);
  auto pause = kFirstPause;
  std::string told;  // why it was waited for
  while (true) {
    const auto ended =
        nri::Serve(options.socket, {options.plugin_name, options.index}, devices, stop);
    if (ended.code == base::Code::kCancelled) return {};
    if (ended.code == base::Code::kUnsupported) return base::Fail(ended);
    const bool was_connected = devices.TakeConnected();
    if (was_connected) pause = kFirstPause;
    if (was_connected || ended.reason != told) {
      base::LogWarning("Waiting for NRI; containers that are created now get no devices", ended);
    }
    told = ended.reason;
    // Every time: the runtime may make the folder anew.
    std::ignore = watcher.Watch(options.socket.parent_path());
    const auto changed = io::WaitReadable({watcher.fd()}, stop, base::Deadline::After(pause));
    if (!changed && changed.error().code == base::Code::kCancelled) return {};
    TRY(watcher.Take());
    pause = changed ? kFirstPause : std::min(pause * 2, kLongestPause);
  }
}

}  // namespace pitcrew::node::toolkit

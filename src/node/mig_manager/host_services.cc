#include "node/mig_manager/host_services.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/root.h"
#include "systemd/manager.h"

namespace pitcrew::node::mig_manager {
namespace {

// Upstream's (9.5).
constexpr std::chrono::seconds kStopTimeout{30};
constexpr std::chrono::seconds kStartTimeout{120};

base::Result<systemd::Manager> Connect(const Options& options) {
  return systemd::Manager::Connect(host::Root(options.host_root).At(systemd::kSystemBusSocket));
}

// In the order in which they were stopped.
base::Result<std::vector<std::string>> ReadStopped(const Options& options) {
  const auto text = base::ReadFile(options.stopped_services());
  if (text) return base::SplitTrimmed(*text, '\n');
  if (text.error().code == base::Code::kNotFound) return std::vector<std::string>();
  return base::Fail(text.error());
}

base::Status WriteStopped(const Options& options, const std::vector<std::string>& services) {
  if (!services.empty()) {
    return base::WriteFileAtomically(options.stopped_services(), base::Join(services, "\n") + "\n");
  }
  std::error_code error;
  std::filesystem::remove(options.stopped_services(), error);
  if (!error) return {};
  return base::Fail(
      base::FromErrno(error.value(), "remove " + options.stopped_services().string()));
}

}  // namespace

base::Status TellHostService(const Options& options, const std::string& config) {
  const auto file = host::Root(options.host_root).At(options.state_file);
  TRY_ASSIGN(const bool there, host::Exists(file));
  if (!there) return {};
  TRY(base::WriteFileAtomically(
      file, fmt::format("[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG={}\"\n", config)));
  auto manager = Connect(options);
  if (!manager && manager.error().code == base::Code::kNotFound) return {};
  if (!manager) return base::Fail(manager.error());
  return manager->Reload();
}

base::Status StopHostServices(const Options& options, const std::vector<std::string>& services,
                              bool changes_modes, const io::StopToken& stop) {
  if (!options.shutdown_host_clients) return {};
  auto units = services;
  if (changes_modes && !options.kubelet_service.empty()) units.push_back(options.kubelet_service);
  auto manager = Connect(options);
  if (!manager && manager.error().code == base::Code::kNotFound) {
    base::LogInfo("Services of the host are left alone", {{"why", manager.error().message}});
    return {};
  }
  if (!manager) return base::Fail(manager.error());
  TRY_ASSIGN(auto stopped, ReadStopped(options));
  for (const auto& unit : units) {
    TRY_ASSIGN(const auto state, manager->Read(unit));
    if (!state.is_active()) continue;
    // Before it is stopped: a service that is started once too often does no harm.
    if (std::ranges::find(stopped, unit) == stopped.end()) stopped.push_back(unit);
    TRY(WriteStopped(options, stopped));
    TRY(manager->Stop(unit, stop, base::Deadline::After(kStopTimeout)));
    base::LogInfo("Stopped a service of the host that uses its GPUs", {{"unit", unit}});
  }
  return {};
}

base::Status StartHostServices(const Options& options) {
  TRY_ASSIGN(auto stopped, ReadStopped(options));
  if (stopped.empty()) return {};
  TRY_ASSIGN(auto manager, Connect(options));
  std::vector<std::string> failed;
  std::vector<std::string> problems;
  std::ranges::reverse(stopped);
  for (const auto& unit : stopped) {
    const auto started = manager.Start(unit, {}, base::Deadline::After(kStartTimeout));
    if (started) {
      base::LogInfo("Started a service of the host again", {{"unit", unit}});
      continue;
    }
    // One that was removed meanwhile is nobody's loss.
    if (started.error().code == base::Code::kNotFound) continue;
    failed.push_back(unit);
    problems.push_back(fmt::format("{} ({})", unit, started.error().message));
  }
  std::ranges::reverse(failed);
  TRY(WriteStopped(options, failed));
  if (problems.empty()) return {};
  return base::Fail(base::Unavailable(
      "HostServicesNotStarted",
      fmt::format("services of the host do not run again: {}", base::Join(problems, "; "))));
}

}  // namespace pitcrew::node::mig_manager

#include "node/driver_manager/command.h"

#include <csignal>

#include "base/log.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/driver_manager/manager.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

base::Status Run(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  TRY_ASSIGN(const auto client, kube::Client::Create(std::move(config)));
  if (options.command == "preflight_check") {
    // A driver container would fail much later, and less clearly, without the API server.
    TRY_ASSIGN(const auto version, client->Version(stop));
    base::LogInfo("The API server answers", {{"version", version.git_version}});
    return {};
  }
  return UninstallDriver(options, client, stop);
}

}  // namespace

int Command(int argc, char** argv) {
  const auto options = ReadOptions(argc, argv);
  if (!options) {
    base::LogError("Wrong usage", options.error());
    return kUsage;
  }
  if (!*options) return 0;
  io::StopSource source;
  if (const auto set = source.StopOnSignals({SIGTERM, SIGINT}); !set) {
    base::LogError("Signals cannot be received", set.error());
    return kFailure;
  }
  const auto done = Run(**options, source.token());
  if (done) return 0;
  base::LogError("The node could not be prepared for a driver container", done.error());
  return kFailure;
}

}  // namespace pitcrew::node::driver_manager

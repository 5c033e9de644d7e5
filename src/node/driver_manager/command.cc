#include "node/driver_manager/command.h"

#include "base/log.h"
#include "io/program.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/driver_manager/manager.h"
#include "node/driver_manager/options.h"
#include "node/driver_manager/preflight.h"

namespace pitcrew::node::driver_manager {
namespace {

base::Status Run(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  TRY_ASSIGN(const auto client, kube::Client::Create(std::move(config)));
  if (options.command == "preflight_check") {
    // A driver container would fail much later, and less clearly, without the API server.
    TRY_ASSIGN(const auto version, client->Version(stop));
    base::LogInfo("The API server answers", {{"version", version.git_version}});
    for (const auto& obstacle : FindBuildObstacles(ReadBuildFacts(options))) {
      base::LogWarning("A driver may not come up on this node", obstacle);
    }
    return {};
  }
  return UninstallDriver(options, client, stop);
}

}  // namespace

int Command(int argc, char** argv) {
  return io::RunProgram({"The node could not be prepared for a driver container"},
                        ReadOptions(argc, argv), Run);
}

}  // namespace pitcrew::node::driver_manager

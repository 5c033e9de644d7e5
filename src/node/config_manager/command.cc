#include "node/config_manager/command.h"

#include "io/program.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/config_manager/manager.h"
#include "node/config_manager/options.h"

namespace pitcrew::node::config_manager {
namespace {

base::Status Run(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  TRY_ASSIGN(auto client,
             kube::Client::Create(std::move(config), {.user_agent = "config-manager"}));
  Manager manager(options, std::move(client));
  const auto status = manager.Run(stop);
  if (!status && stop.stopped()) return {};
  return status;
}

}  // namespace

int Command(int argc, char** argv) {
  return io::RunProgram({.failure = "The config-manager ends", .usage_status = 1},
                        ParseOptions(argc, argv), Run);
}

}  // namespace pitcrew::node::config_manager

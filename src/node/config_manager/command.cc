#include "node/config_manager/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>

#include "io/stop.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/config_manager/manager.h"
#include "node/config_manager/options.h"

namespace pitcrew::node::config_manager {
namespace {

base::Status Run(const Options& options) {
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  TRY_ASSIGN(auto client,
             kube::Client::Create(std::move(config), {.user_agent = "config-manager"}));
  Manager manager(options, std::move(client));
  const auto status = manager.Run(stop.token());
  if (!status && stop.token().stopped()) return {};
  return status;
}

}  // namespace

int Command(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  if (options && !*options) return 0;
  const auto status = options ? Run(**options) : base::Status(base::Fail(options.error()));
  if (status) return 0;
  fmt::print(stderr, "config-manager: {}\n", status.error().ToString());
  return 1;
}

}  // namespace pitcrew::node::config_manager

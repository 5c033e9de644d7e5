#include "node/feature_discovery/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>

#include "io/stop.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/feature_discovery/daemon.h"

namespace pitcrew::node::feature_discovery {
namespace {

base::Result<std::unique_ptr<Output>> Open(const Options& options, const Settings& settings) {
  if (!settings.use_node_feature_api) return FileOutput(settings.output_file);
  TRY_ASSIGN(auto config, options.kubeconfig.empty() ? kube::LoadInCluster()
                                                     : kube::LoadKubeconfig(options.kubeconfig));
  TRY_ASSIGN(auto client,
             kube::Client::Create(std::move(config), {.user_agent = "gpu-feature-discovery"}));
  return NodeFeatureOutput(std::move(client), options);
}

base::Status Run(const Options& options) {
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  Daemon daemon(
      options, NodePaths(),
      [&options](const Settings& settings) { return Open(options, settings); }, reload,
      stop.token());
  return daemon.Run();
}

}  // namespace

int Command(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  if (options && !*options) return 0;
  const auto status = options ? Run(**options) : base::Status(base::Fail(options.error()));
  if (status) return 0;
  fmt::print(stderr, "gpu-feature-discovery: {}\n", status.error().ToString());
  return 1;
}

}  // namespace pitcrew::node::feature_discovery

#include "node/feature_discovery/command.h"

#include <fmt/format.h>
#include <signal.h>

#include "base/log.h"
#include "io/program.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/feature_discovery/daemon.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::feature_discovery {
namespace {

constexpr const char* kComponent = "gpu-feature-discovery";

base::Result<std::unique_ptr<Output>> Open(const Options& options, const Settings& settings) {
  if (!settings.use_node_feature_api) return FileOutput(settings.output_file);
  TRY_ASSIGN(auto config, options.kubeconfig.empty() ? kube::LoadInCluster()
                                                     : kube::LoadKubeconfig(options.kubeconfig));
  TRY_ASSIGN(auto client, kube::Client::Create(std::move(config), {.user_agent = kComponent}));
  return NodeFeatureOutput(std::move(client), options);
}

// An Event on the node. `node` is opened for the first one.
void Tell(const Options& options, const base::Error& error,
          std::unique_ptr<own_node::OwnNode>& node) {
  if (options.node_name.empty()) return;
  if (!node) {
    auto opened = own_node::OwnNode::Open(
        options.kubeconfig,
        {.node_name = options.node_name, .component = kComponent, .pod_name = options.pod_name});
    if (!opened) return base::LogWarning("no Event is sent", opened.error());
    node = *std::move(opened);
  }
  node->Record(kube::EventType::kWarning, "FeatureDiscoveryConfigRefused",
               fmt::format("GPU feature discovery goes on with its last good configuration: {}",
                           error.ToString()));
}

base::Status Run(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  std::unique_ptr<own_node::OwnNode> node;
  Daemon daemon(
      options, NodePaths(),
      [&options](const Settings& settings) { return Open(options, settings); },
      [&](const base::Error& error) { Tell(options, error, node); }, reload, stop);
  return daemon.Run();
}

}  // namespace

int Command(int argc, char** argv) {
  return io::RunProgram({.failure = "GPU feature discovery ends", .usage_status = 1},
                        ParseOptions(argc, argv), Run);
}

}  // namespace pitcrew::node::feature_discovery

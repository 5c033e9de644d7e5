#include "node/vgpu_device_manager/command.h"

#include <csignal>

#include "base/log.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/vgpu_device_manager/daemon.h"
#include "node/vgpu_device_manager/options.h"

namespace pitcrew::node::vgpu_device_manager {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

base::Status Run(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  TRY_ASSIGN(auto client, kube::Client::Create(std::move(config)));
  return Daemon(options, std::move(client), stop).Run();
}

}  // namespace

int Command(int argc, char** argv) {
  const auto options = ReadOptions(argc, argv);
  if (!options) {
    base::LogError("Wrong usage", options.error());
    return kUsage;
  }
  if (!*options) return 0;
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  io::StopSource source;
  if (const auto set = source.StopOnSignals({SIGTERM, SIGINT}); !set) {
    base::LogError("Signals cannot be received", set.error());
    return kFailure;
  }
  const auto done = Run(**options, source.token());
  if (done) return 0;
  base::LogError("The vGPU device manager cannot work", done.error());
  return kFailure;
}

}  // namespace pitcrew::node::vgpu_device_manager

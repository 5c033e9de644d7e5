#include "node/mig_manager/command.h"

#include <csignal>

#include "io/program.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/mig_manager/daemon.h"
#include "node/mig_manager/options.h"

namespace pitcrew::node::mig_manager {
namespace {

base::Status Run(const Options& options, const io::StopToken& stop) {
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  TRY_ASSIGN(auto client, kube::Client::Create(std::move(config)));
  return Daemon(options, std::move(client), stop).Run();
}

}  // namespace

int Command(int argc, char** argv) {
  return io::RunProgram({"The MIG manager cannot work"}, ReadOptions(argc, argv), Run);
}

}  // namespace pitcrew::node::mig_manager

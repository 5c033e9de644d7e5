#include "node/cc_manager/command.h"

#include <csignal>

#include "io/program.h"
#include "kube/client.h"
#include "kube/config.h"
#include "node/cc_manager/daemon.h"
#include "node/cc_manager/options.h"

namespace pitcrew::node::cc_manager {
namespace {

base::Status Run(Options options, const io::StopToken& stop) {
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  // Where its own pod runs, the operands do (virtualisation-and-olm.md section 12.1).
  if (options.namespace_name.empty()) options.namespace_name = config.default_namespace;
  TRY_ASSIGN(auto client, kube::Client::Create(std::move(config)));
  return Daemon(options, std::move(client), stop).Run();
}

}  // namespace

int Command(int argc, char** argv) {
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  return io::RunProgram({.failure = "The confidential computing manager cannot work"},
                        ReadOptions(argc, argv), Run);
}

}  // namespace pitcrew::node::cc_manager

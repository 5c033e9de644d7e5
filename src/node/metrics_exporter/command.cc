#include "node/metrics_exporter/command.h"

#include <signal.h>

#include <cstdlib>
#include <utility>

#include "io/program.h"
#include "node/metrics_exporter/exporter.h"
#include "node/metrics_exporter/options.h"
#include "nvml/guarded.h"

namespace pitcrew::node::metrics_exporter {
namespace {

base::Status Run(Options options, const io::StopToken& stop) {
  base::ConfigureLog(options.log);
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  Exporter exporter(std::move(options), reload, stop);
  return exporter.Run();
}

}  // namespace

int Command(int argc, char** argv) {
  const int status = io::RunProgram({.failure = "The metrics exporter ends", .usage_status = 1},
                                    ReadOptions(argc, argv), Run);
  if (nvml::HasHangingCalls()) std::_Exit(status);
  return status;
}

}  // namespace pitcrew::node::metrics_exporter

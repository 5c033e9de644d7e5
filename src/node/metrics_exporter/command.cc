#include "node/metrics_exporter/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "io/stop.h"
#include "node/metrics_exporter/exporter.h"
#include "node/metrics_exporter/options.h"
#include "nvml/guarded.h"

namespace pitcrew::node::metrics_exporter {
namespace {

base::Status Run(Options options) {
  base::ConfigureLog(options.log);
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT}));
  TRY_ASSIGN(const auto reload, io::SignalReceiver::Create({SIGHUP}));
  Exporter exporter(std::move(options), reload, stop.token());
  return exporter.Run();
}

}  // namespace

int Command(int argc, char** argv) {
  auto options = ReadOptions(argc, argv);
  if (options && !*options) return 0;
  const auto status =
      options ? Run(**std::move(options)) : base::Status(base::Fail(options.error()));
  if (!status) fmt::print(stderr, "dcgm-exporter: {}\n", status.error().ToString());
  const int code = status ? 0 : 1;
  if (nvml::HasHangingCalls()) std::_Exit(code);
  return code;
}

}  // namespace pitcrew::node::metrics_exporter

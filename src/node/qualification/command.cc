#include "node/qualification/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "codec/yaml.h"
#include "io/program.h"
#include "node/qualification/exercise.h"
#include "node/qualification/options.h"
#include "node/qualification/tell.h"
#include "nvml/guarded.h"

namespace pitcrew::node::qualification {
namespace {

// In the process of one GPU: what was measured, or why nothing was, is one line of JSON.
int ExerciseOne(const Options& options) {
  const auto measure = [&]() -> base::Result<Exercise> {
    if (options.part == kBandwidthsPart) return MeasureBandwidths(options.gpu);
    if (options.part == kPeerPart) return MeasurePeerCopies();
    TRY_ASSIGN(const Amount amount, ParseAmount(options.examine.memory));
    return TestMemory(amount);
  };
  const auto exercise = measure();
  const codec::Json told =
      exercise ? ToJson(*exercise) : codec::Json{{"error", exercise.error().message}};
  fmt::print("{}\n", codec::ToJsonText(told));
  return exercise ? 0 : 1;
}

void Print(const Report& report, Format format) {
  if (format == Format::kText) {
    fmt::print("{}", ToText(report));
  } else if (format == Format::kJson) {
    fmt::print("{}\n", codec::ToPrettyJsonText(ToJson(report)));
  } else {
    fmt::print("{}", codec::ToYamlText(ToJson(report)));
  }
}

base::Status VerdictOf(const Report& report) {
  if (report.passed()) return {};
  return base::Fail(base::Unavailable("QualificationFailed", report.Summary()));
}

base::Result<Report> TestAndTell(const Options& options, const Found& found, Teller& teller,
                                 const io::StopToken& stop) {
  TRY(teller.TellRunning(found, stop));
  TRY_ASSIGN(auto report, Examine(options.examine, stop));
  Print(report, options.format);
  TRY(teller.TellResult(report, {}));
  return report;
}

// The error is why, or that the Node could not be told.
base::Status TellNotDone(Teller& teller, const base::Error& why) {
  TRY(teller.TellNotDone(why, {}));
  return base::Fail(why);
}

// Whoever asks is told, also by the exit status.
base::Status QualifyOnDemand(const Options& options, own_node::OwnNode& node,
                             const io::StopToken& stop) {
  const auto now = node.Read(stop);
  Teller teller(node, now ? BootOf(*now) : "");
  const auto found = LookAtGpus(options.examine);
  const auto report =
      found ? TestAndTell(options, *found, teller, stop) : base::Fail(found.error());
  if (report) return VerdictOf(*report);
  // Also when this process was told to stop: else "running" stands for ever.
  return TellNotDone(teller, report.error());
}

// For the operator, which holds the node until its GPUs have passed. What comes of it stands on the
// Node; a GPU that fails is no failure of this process, which would be started again for it. GPUs
// that could not be tested are one: it is started again until they are.
base::Status QualifyIfNeeded(const Options& options, own_node::OwnNode& node,
                             const io::StopToken& stop) {
  TRY_ASSIGN(const auto now, node.Read(stop));
  if (!IsHeld(now)) {
    base::LogInfo("Nothing is tested: the Node is not held for a qualification",
                  {{"taint", api::kNotQualifiedTaint}});
    return {};
  }
  Teller teller(node, BootOf(now));
  const auto found = LookAtGpus(options.examine);
  if (!found) return TellNotDone(teller, found.error());
  if (const auto state = StandingResult(now, *found)) {
    base::LogInfo("Nothing is tested: the result for these GPUs and this driver stands",
                  {{"state", ToString(*state)}});
    return teller.TellStanding(*state, stop);
  }
  const auto report = TestAndTell(options, *found, teller, stop);
  if (report) return {};
  // The pod leaves, for example for a change of the MIG geometry, and comes back.
  if (stop.stopped()) return teller.Forget({});
  return TellNotDone(teller, report.error());
}

base::Status Run(const Options& options, const io::StopToken& stop) {
  if (!options.tell) {
    TRY_ASSIGN(const auto report, Examine(options.examine, stop));
    Print(report, options.format);
    return VerdictOf(report);
  }
  TRY_ASSIGN(const auto node,
             own_node::OwnNode::Open(options.kubeconfig, {.node_name = options.examine.node,
                                                          .component = "qualification",
                                                          .pod_name = ""}));
  const base::Status done = options.if_needed ? QualifyIfNeeded(options, *node, stop)
                                              : QualifyOnDemand(options, *node, stop);
  node->FlushEvents();
  return done;
}

}  // namespace

int Command(int argc, char** argv) {
  auto options = ReadOptions(argc, argv);
  if (options && *options && !(*options)->gpu.empty()) return ExerciseOne(**options);
  const int status =
      io::RunProgram({.failure = "The GPUs are not qualified"}, std::move(options), Run);
  if (nvml::HasHangingCalls() || LeftProcessesBehind()) {
    std::fflush(nullptr);
    std::_Exit(status);
  }
  return status;
}

}  // namespace pitcrew::node::qualification

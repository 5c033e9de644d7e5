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

base::Status ExamineAndTell(const Options& options, own_node::OwnNode& node,
                            const io::StopToken& stop) {
  Teller teller(node);
  const auto found = LookAtGpus(options.examine);
  if (options.if_needed) {
    if (!found && found.error().reason == "GpuInUse") {
      base::LogInfo("Nothing is tested", {{"reason", found.error().message}});
      return {};
    }
    TRY_ASSIGN(const auto now, node.Read(stop));
    if (found && Stands(now, *found)) {
      base::LogInfo("The GPUs have passed before, with this driver");
      return {};
    }
  }
  // What happened is told also when this process was told to stop: else "running" stands for ever.
  const io::StopToken never;
  if (!found) {
    TRY(teller.TellNotDone(found.error(), never));
    return base::Fail(found.error());
  }
  TRY(teller.TellRunning(*found, stop));
  const auto report = Examine(options.examine, stop);
  if (!report) {
    TRY(teller.TellNotDone(report.error(), never));
    return base::Fail(report.error());
  }
  Print(*report, options.format);
  TRY(teller.TellResult(*report, never));
  return VerdictOf(*report);
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
  const base::Status done = ExamineAndTell(options, *node, stop);
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

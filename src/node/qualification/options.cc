#include "node/qualification/options.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "node/qualification/exercise.h"

namespace pitcrew::node::qualification {
namespace {

constexpr std::string_view kHelp =
    "Tests this node's GPUs: patterns in their memory, bandwidths, PCIe and NVLink, errors that "
    "the "
    "driver has counted, clocks under load; each against what a good GPU of the model does. Needs "
    "the GPUs for itself, and the driver's libraries. Exit status: 0 all passed, 1 a GPU failed or "
    "could not be tested, 2 wrong usage.";

base::Error BadUsage(std::string message) { return base::Invalid("BadUsage", std::move(message)); }

base::Result<Format> ReadFormat(std::string_view text) {
  if (text == "text") return Format::kText;
  if (text == "json") return Format::kJson;
  if (text == "yaml") return Format::kYaml;
  return base::Fail(BadUsage(fmt::format("--output {} is none of text, json, yaml", text)));
}

base::Status CheckOptions(const Options& options) {
  if (const auto amount = ParseAmount(options.examine.memory); !amount) {
    return base::Fail(amount.error());
  }
  if ((options.tell || options.if_needed) && options.examine.node.empty()) {
    return base::Fail(BadUsage("--tell and --if-needed need --node-name (NODE_NAME)"));
  }
  if (options.if_needed && !options.tell) {
    return base::Fail(BadUsage("--if-needed needs --tell: what stands is what was told"));
  }
  const bool known_part =
      options.part == kMemoryPart || options.part == kBandwidthsPart || options.part == kPeerPart;
  if (options.gpu.empty() != options.part.empty() || (!options.part.empty() && !known_part)) {
    return base::Fail(BadUsage(fmt::format("--gpu goes with --part {}, {} or {}", kMemoryPart,
                                           kBandwidthsPart, kPeerPart)));
  }
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  std::optional<std::string> node, kubeconfig, memory, deadline, format, gpu, part;
  std::optional<bool> tell, if_needed, even_if_used;
  base::CommandLine line("nvidia-validator qualify", kHelp, "pitcrew " PITCREW_VERSION);
  line.Add({"output,o", "", "text, json or yaml"}, &format);
  line.Add({"memory", "", "how much of each GPU's free memory: 90%, 16Gi (default 90%)"}, &memory);
  line.Add({"deadline", "", "for each of the exercises of a GPU (default 10m)"}, &deadline);
  line.Add({"even-if-used", "", "also while processes have the GPUs, which it disturbs"},
           &even_if_used);
  line.Add({"tell", "", "write the result on the Node: label, annotation, Event"}, &tell);
  line.Add({"if-needed", "",
            "with --tell: only where the Node has the taint nvidia.com/gpu-operator.not-qualified, "
            "and no result of before stands for its GPUs, driver and (a failure) start; exit "
            "status 0 once the Node tells what came of it"},
           &if_needed);
  line.Add({"node-name,n", "NODE_NAME", "this node"}, &node);
  line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
  line.Add({"gpu", "",
            "exercise only the GPU with this UUID, in this process, and print what was measured; "
            "qualify starts itself so for each GPU, with CUDA_VISIBLE_DEVICES set to it"},
           &gpu);
  line.Add({"part", "",
            "with --gpu: memory, bandwidths or peer (copies to the second GPU that is visible)"},
           &part);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  Options options;
  options.examine.node = node.value_or("");
  options.examine.memory = memory.value_or(options.examine.memory);
  options.examine.even_if_used = even_if_used.value_or(false);
  options.kubeconfig = kubeconfig.value_or("");
  options.tell = tell.value_or(false);
  options.if_needed = if_needed.value_or(false);
  options.gpu = gpu.value_or("");
  options.part = part.value_or("");
  TRY_ASSIGN(options.format, ReadFormat(format.value_or("text")));
  if (deadline) {
    TRY_ASSIGN(options.examine.deadline, base::ParseGoDuration(*deadline));
    constexpr std::chrono::hours kLongest{24};
    if (options.examine.deadline <= std::chrono::nanoseconds::zero() ||
        options.examine.deadline > kLongest) {
      return base::Fail(BadUsage("--deadline has to be longer than nothing, and a day at most"));
    }
  }
  TRY(CheckOptions(options));
  return options;
}

}  // namespace pitcrew::node::qualification

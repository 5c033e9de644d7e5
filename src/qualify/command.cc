#include "qualify/command.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/command_line.h"
#include "codec/yaml.h"
#include "io/stop.h"
#include "qualify/request.h"
#include "snapshot/connection.h"

namespace pitcrew::qualify {
namespace {

constexpr int kFailed = 1;
constexpr int kMisused = 2;

constexpr const char* kHelp =
    "Has the GPUs of a node tested by a pod there: patterns in memory, bandwidths, links, errors "
    "that the driver has counted. The node then tells the result in its label and annotation "
    "nvidia.com/gpu-operator.qualification, and the pod's log has every measurement. Refused while "
    "pods on the node have GPUs. Exit status: 0 asked for (with --wait: all GPUs passed), 1 not "
    "possible (with --wait: or a GPU failed), 2 wrong usage.";

struct Options {
  PodRequest request;
  std::string name_space;
  snapshot::Connection connection;
  bool wait = false;
  std::string format = "text";
  std::chrono::nanoseconds timeout = std::chrono::minutes(45);
};

base::Error BadUsage(std::string message) { return base::Invalid("BadUsage", std::move(message)); }

base::Result<std::optional<Options>> ReadOptions(int argc, const char* const* argv) {
  std::optional<std::string> name_space, memory, deadline, timeout, format;
  std::optional<bool> wait, even_if_used;
  std::vector<std::string> words;
  snapshot::ConnectionFlags connection;
  base::CommandLine line("qualify", kHelp, "pitcrew " PITCREW_VERSION);
  line.Add({"wait", "", "until the result is there, and print it"}, &wait);
  line.Add({"timeout", "", "with --wait: give up after this time (45m); the test goes on"},
           &timeout);
  line.Add({"output,o", "", "of the result: text, json or yaml"}, &format);
  line.Add({"even-if-used", "", "also while pods on the node have GPUs, which it disturbs"},
           &even_if_used);
  line.Add({"memory", "", "how much of each GPU's free memory: 90%, 16Gi (default 90%)"}, &memory);
  line.Add({"deadline", "", "for each of the exercises of a GPU (default 10m)"}, &deadline);
  snapshot::AddOperatorNamespace(line, name_space);
  connection.AddTo(line);
  line.AddWords("NODE", "the node", &words);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return std::nullopt;
  if (words.size() != 1) return base::Fail(BadUsage("one NODE is needed: pitcrew qualify NODE"));
  Options options;
  options.request = {.node = words.front(),
                     .memory = memory.value_or(""),
                     .deadline = deadline.value_or(""),
                     .even_if_used = even_if_used.value_or(false)};
  options.name_space = name_space.value_or("");
  options.connection = connection.Read();
  options.wait = wait.value_or(false);
  options.format = format.value_or("text");
  if (options.format != "text" && options.format != "json" && options.format != "yaml") {
    return base::Fail(
        BadUsage(fmt::format("--output {} is none of text, json, yaml", options.format)));
  }
  if (format && !options.wait) return base::Fail(BadUsage("--output needs --wait"));
  if (timeout) {
    TRY_ASSIGN(options.timeout, base::ParseGoDuration(*timeout));
  }
  if (deadline) TRY(base::ParseGoDuration(*deadline));
  return options;
}

void Print(const api::Qualification& told, const Options& options) {
  if (options.format == "text") {
    fmt::print("{}: {} ({})\n", options.request.node, ToString(told.state), told.message);
    for (const auto& gpu : told.gpus) {
      fmt::print("GPU {}  {}  {}: {}\n", gpu.index, gpu.name, gpu.uuid,
                 gpu.passed ? "passed" : "failed");
      for (const auto& failure : gpu.failures) fmt::print("  {}\n", failure);
    }
    return;
  }
  auto value = codec::ParseJson(api::ToText(told)).value_or(codec::Json::object());
  value["node"] = options.request.node;
  fmt::print("{}", options.format == "json" ? codec::ToPrettyJsonText(value) + "\n"
                                            : codec::ToYamlText(value));
}

// The exit status.
base::Result<int> Run(const Options& options) {
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGINT, SIGTERM}));
  TRY_ASSIGN(const auto client, snapshot::Connect(options.connection));
  TRY_ASSIGN(const auto pod, Ask(*client, options.request, options.name_space, stop.token()));
  if (!options.wait) {
    fmt::print("pod {} tests the GPUs of {}; `kubectl logs -f -n {} {}` follows it\n",
               pod.ToString(), options.request.node, pod.namespace_name, pod.name);
    return 0;
  }
  TRY_ASSIGN(const auto told, Follow(client, options.request.node, pod, stop.token(),
                                     base::Deadline::After(options.timeout)));
  Print(told, options);
  return told.state == api::QualificationState::kPassed ? 0 : kFailed;
}

}  // namespace

int Command(int argc, char** argv) {
  const auto options = ReadOptions(argc, argv);
  if (options && !*options) return 0;
  const auto status = options ? Run(**options) : base::Result<int>(base::Fail(options.error()));
  if (status) return *status;
  fmt::print(stderr, "pitcrew qualify: {}\n", status.error().message);
  return options ? kFailed : kMisused;
}

}  // namespace pitcrew::qualify

#include "vm/command.h"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "codec/yaml.h"
#include "io/stop.h"
#include "kubevirt/kinds.h"
#include "snapshot/connection.h"
#include "snapshot/file.h"
#include "snapshot/live.h"
#include "vm/virtual_machine.h"

namespace pitcrew::vm {
namespace {

constexpr const char* kHelp =
    "Prints a VirtualMachine of KubeVirt that gets GPUs of this cluster: `kubectl pitcrew vm NAME "
    "| "
    "kubectl apply -f -`. What might keep it from starting is said on standard error. Exit status: "
    "0 printed, 1 the cluster cannot be read or offers nothing that fits, 2 wrong usage.";
constexpr const char* kDefaultMemory = "16Gi";
constexpr const char* kDefaultDisk = "quay.io/containerdisks/ubuntu:24.04";

struct Options {
  MachineRequest request;
  snapshot::Connection connection;
  std::string file;
  bool json = false;
};

base::Result<std::optional<Options>> ReadOptions(int argc, const char* const* argv) {
  std::optional<std::string> name_space, gpu, memory, disk, file, format;
  std::optional<std::int64_t> count, cores;
  std::vector<std::string> words;
  snapshot::ConnectionFlags connection;
  base::CommandLine line("vm", kHelp, "pitcrew " PITCREW_VERSION);
  line.Add({"namespace,n", "", "namespace of the virtual machine; kubectl's own otherwise"},
           &name_space);
  line.Add({"gpu", "",
            "the resource: GA102GL_A10 or nvidia.com/GA102GL_A10; not needed where "
            "there is only one"},
           &gpu);
  line.Add({"count", "", "how many of them (1)"}, &count);
  line.Add({"cores", "", "cores of the virtual machine (4)"}, &cores);
  line.Add({"memory", "", "its memory (16Gi)"}, &memory);
  line.Add({"disk", "", "image of its container disk (Ubuntu 24.04)"}, &disk);
  connection.AddTo(line);
  line.Add(
      {"cluster", "", "read objects from this file instead (YAML or JSON; - is standard input)"},
      &file);
  line.Add({"output,o", "", "yaml or json"}, &format);
  line.AddWords("NAME", "name of the virtual machine", &words);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return std::nullopt;
  if (words.size() != 1) {
    return base::Fail(base::Invalid("BadUsage", "one NAME is needed: pitcrew vm NAME"));
  }
  const auto wanted = format.value_or("yaml");
  if (wanted != "yaml" && wanted != "json") {
    return base::Fail(
        base::Invalid("BadUsage", fmt::format("--output {} is none of yaml, json", wanted)));
  }
  Options options;
  options.request = {.name = words.front(),
                     .name_space = name_space.value_or(""),
                     .resource = gpu.value_or(""),
                     .count = count.value_or(1),
                     .cores = cores.value_or(4),
                     .memory = memory.value_or(kDefaultMemory),
                     .disk = disk.value_or(kDefaultDisk)};
  options.connection = connection.Read();
  options.file = file.value_or("");
  options.json = wanted == "json";
  TRY(Check(options.request));
  return options;
}

base::Result<snapshot::Snapshot> ReadFile(const std::string& path) {
  snapshot::Snapshot snapshot(snapshot::NameOfInput(path), true);
  TRY(snapshot::VisitFile(path,
                          [&](codec::Json object) { return snapshot.Add(std::move(object)); }));
  return snapshot;
}

base::Result<snapshot::Snapshot> ReadCluster(const Options& options, const io::StopToken& stop) {
  if (!options.file.empty()) return ReadFile(options.file);
  TRY_ASSIGN(const auto client, snapshot::Connect(options.connection));
  const std::array queries = {snapshot::Query{.kind = kube::kNodes},
                              snapshot::Query{.kind = kubevirt::kKubeVirts}};
  return snapshot::ReadLive(*client, queries, stop);
}

base::Status Print(const Options& options) {
  io::StopSource stop;
  TRY(stop.StopOnSignals({SIGINT, SIGTERM}));
  TRY_ASSIGN(const auto cluster, ReadCluster(options, stop.token()));
  TRY_ASSIGN(const auto offered, Offered(cluster));
  TRY_ASSIGN(const auto request, Choose(options.request, offered));
  for (const auto& caution : Cautions(request, cluster)) {
    fmt::print(stderr, "warning: {}\n", caution);
  }
  const auto machine = VirtualMachine(request);
  fmt::print("{}",
             options.json ? codec::ToPrettyJsonText(machine) + "\n" : codec::ToYamlText(machine));
  return {};
}

}  // namespace

int Command(int argc, char** argv) {
  constexpr int kFailed = 1;
  constexpr int kMisused = 2;
  const auto options = ReadOptions(argc, argv);
  if (options && !*options) return 0;
  const auto status = options ? Print(**options) : base::Status(base::Fail(options.error()));
  if (status) return 0;
  fmt::print(stderr, "pitcrew vm: {}\n", status.error().message);
  return options ? kFailed : kMisused;
}

}  // namespace pitcrew::vm

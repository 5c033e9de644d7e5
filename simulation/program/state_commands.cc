// The state file itself: making and showing it.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "codec/json.h"
#include "gpu/pci_address.h"
#include "simulation/description/description.h"
#include "simulation/program/commands.h"
#include "simulation/state/discovery.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

struct StateOptions {
  std::string description;
  std::string profiles;
  std::string node_name;
  std::string version;
  std::string state = kStatePath;
};

codec::Json MigToJson(const GpuState& gpu) {
  codec::Json devices = codec::Json::array();
  for (const auto& ref : ListMigDevices(gpu)) {
    const auto& instance = *FindInstance(gpu, ref.instance_serial);
    const auto& compute = *FindComputeInstance(instance, ref.compute_serial);
    devices.push_back({{"uuid", MigUuid(gpu, instance, compute)},
                       {"gpuInstance", ref.instance_id},
                       {"computeInstance", ref.compute_id},
                       {"profileId", ProfileOf(gpu, instance).id},
                       {"placement", {{"start", instance.start}, {"size", instance.size}}}});
  }
  return {
      {"current", gpu.mig_current != 0}, {"pending", gpu.mig_pending != 0}, {"devices", devices}};
}

codec::Json GpuToJson(const GpuState& gpu, std::int64_t now) {
  const gpu::PciAddress address{gpu.pci_domain, static_cast<std::uint8_t>(gpu.pci_bus),
                                static_cast<std::uint8_t>(gpu.pci_device),
                                static_cast<std::uint8_t>(gpu.pci_function)};
  codec::Json json = {
      {"profile", gpu.profile},
      {"name", gpu.name},
      {"uuid", gpu.uuid},
      {"serial", gpu.serial},
      {"minor", gpu.minor_number},
      {"pci", address.SysfsName()},
      {"numa", gpu.numa_node},
      {"memoryBytes", gpu.memory_total},
      {"load", gpu.load},
      {"temperature", Temperature(gpu, now)},
      {"powerMilliwatt", PowerUsage(gpu, now)},
      {"lost", gpu.lost != 0},
      {"unknownError", gpu.unknown_error != 0},
      {"slowMilliseconds",
       gpu.slow_milliseconds == kHangs ? codec::Json("hangs") : codec::Json(gpu.slow_milliseconds)},
      {"recoveryAction", gpu.recovery_action},
      {"clocksEventReasons", ClocksEventReasons(gpu)},
      {"linksDown", gpu.links_down},
      {"fabricHealth", gpu.fabric_health},
      {"remappedRows",
       {{"correctable", gpu.remapped_correctable},
        {"uncorrectable", gpu.remapped_uncorrectable},
        {"pending", gpu.remap_pending != 0},
        {"failure", gpu.remap_failure != 0}}},
      {"eccErrors",
       {{"corrected", gpu.ecc_corrected_volatile}, {"uncorrected", gpu.ecc_uncorrected_volatile}}},
      {"resets", gpu.resets}};
  if (gpu.mig_capable != 0) json["mig"] = MigToJson(gpu);
  codec::Json processes = codec::Json::array();
  for (const auto& process : gpu.processes) {
    if (process.pid == 0) continue;
    processes.push_back(
        {{"pid", process.pid}, {"name", process.name}, {"memoryBytes", process.used_memory}});
  }
  json["processes"] = processes;
  return json;
}

base::Status Create(const StateOptions& options) {
  char host[65] = {};
  const bool named = ::gethostname(host, sizeof(host) - 1) == 0;
  TRY_ASSIGN(auto node, LoadDescription(options.description,
                                        {options.node_name.empty() ? (named ? host : "node")
                                                                   : options.node_name,
                                         options.version, options.profiles}));
  node.driver_loaded = 1;
  TRY(StateFile::Create(options.state, node));
  return {};
}

base::Status Show(const StateOptions& options) {
  TRY_ASSIGN(const auto file, StateFile::Open(options.state));
  const auto node = file->Snapshot();
  const auto now = RealtimeNow();
  codec::Json json = {{"node", node->node_name},
                      {"driverVersion", node->driver_version},
                      {"cudaVersion", node->cuda_version},
                      {"driverLoaded", node->driver_loaded != 0},
                      {"driverHangs", node->driver_hangs != 0},
                      {"gpus", codec::Json::array()}};
  for (std::uint32_t i = 0; i < node->gpu_count; ++i) {
    json["gpus"].push_back(GpuToJson(node->gpus[i], now));
  }
  fmt::print("{}\n", codec::ToPrettyJsonText(json));
  return {};
}

}  // namespace

void AddStateCommands(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<StateOptions>();
  const auto run = [&exit_code, options](base::Status (*action)(const StateOptions&)) {
    return [&exit_code, options, action] {
      if (const auto status = action(*options); !status) exit_code = ExitCodeFor(status.error());
    };
  };
  auto* state = app.add_subcommand("state", "The file that holds a node's simulated GPUs");
  state->require_subcommand(1);
  auto* create = state->add_subcommand("create", "Make it from a description, driver loaded");
  create->add_option("--description", options->description, "YAML description")->required();
  create->add_option("--state", options->state, "state file")->capture_default_str();
  create->add_option("--version", options->version, "driver version");
  create->add_option("--profiles", options->profiles, "folder with further GPU profiles");
  create
      ->add_option("--node-name", options->node_name,
                   "node name when the description has none (default: the host's name)")
      ->envname("NODE_NAME");
  create->callback(run(Create));
  auto* show = state->add_subcommand("show", "Print it as JSON");
  show->add_option("--state", options->state, "state file")->capture_default_str();
  show->callback(run(Show));
}

}  // namespace pitcrew::simulation

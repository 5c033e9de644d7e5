// Faults of GPUs while they are used, and their end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/xid_policy.h"
#include "nvml/abi_metrics.h"
#include "simulation/program/gpu_selection.h"
#include "simulation/state/incidents.h"
#include "simulation/state/readings.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

using nvml::abi::Return;

const std::map<std::string, std::uint32_t> kRecoveryActions = {
    {"none", nvml::abi::kRecoveryNone},
    {"reset", nvml::abi::kRecoveryGpuReset},
    {"reboot", nvml::abi::kRecoveryNodeReboot},
    {"drain-p2p", nvml::abi::kRecoveryDrainP2p},
    {"drain-and-reset", nvml::abi::kRecoveryDrainAndReset}};

const std::map<std::string, std::uint32_t> kFabricHealth = {
    {"healthy", nvml::abi::fabric_health::kHealthy},
    {"unhealthy", nvml::abi::fabric_health::kUnhealthy},
    {"limited", nvml::abi::fabric_health::kLimitedCapacity}};

const std::map<std::string, std::uint64_t> kThrottleWords = {
    {"none", 0},
    {"application-clocks", nvml::abi::kClocksApplicationsSetting},
    {"sw-power-cap", nvml::abi::kClocksSwPowerCap},
    {"hw-slowdown", nvml::abi::kClocksHwSlowdown},
    {"sync-boost", nvml::abi::kClocksSyncBoost},
    {"sw-thermal", nvml::abi::kClocksSwThermalSlowdown},
    {"hw-thermal", nvml::abi::kClocksHwThermalSlowdown},
    {"hw-power-brake", nvml::abi::kClocksHwPowerBrakeSlowdown},
    {"display", nvml::abi::kClocksDisplaySetting}};

template <class Value>
std::vector<std::string> Words(const std::map<std::string, Value>& table) {
  std::vector<std::string> words;
  for (const auto& [word, value] : table) words.push_back(word);
  return words;
}

void AddXid(GpuCommands& commands) {
  struct Options {
    std::uint64_t xid = 0;
    std::uint32_t gpu_instance = kNoInstance;
    std::uint32_t compute_instance = kNoInstance;
    std::string recovery;
  };
  const auto options = std::make_shared<Options>();
  auto* xid = commands.AddChange(
      "xid", "Report an XID error", [options](NodeState& node, std::uint32_t gpu) -> base::Status {
        AddEvent(node, gpu, nvml::abi::kEventXid, options->xid, options->gpu_instance,
                 options->compute_instance);
        std::uint32_t action = nvml::abi::kRecoveryNone;
        if (!options->recovery.empty()) {
          action = kRecoveryActions.at(options->recovery);
        } else if (gpu::XidPolicy().EffectOf(options->xid) == gpu::XidEffect::kUntilReset) {
          action = nvml::abi::kRecoveryGpuReset;
        }
        GpuState& state = node.gpus[gpu];
        state.recovery_action = std::max(state.recovery_action, action);
        return {};
      });
  xid->add_option("xid", options->xid, "XID number")->required();
  xid->add_option("--recovery", options->recovery,
                  "what NVML then says is needed (default: reset for an XID that needs one); "
                  "gpu reset ends it")
      ->check(CLI::IsMember(Words(kRecoveryActions)));
  xid->add_option("--gpu-instance", options->gpu_instance, "id of a MIG GPU instance");
  xid->add_option("--compute-instance", options->compute_instance, "id of a MIG compute instance");
}

void AddLosses(GpuCommands& commands) {
  commands.AddChange("lose", "Let the GPU fall off the bus (XID 79)",
                     [](NodeState& node, std::uint32_t gpu) -> base::Status {
                       LoseGpu(node, gpu);
                       return {};
                     });
  commands.AddChange("unknown-error", "Let every call on the GPU answer Unknown Error",
                     [](NodeState& node, std::uint32_t gpu) -> base::Status {
                       node.gpus[gpu].unknown_error = 1;
                       return {};
                     });
  const auto milliseconds = std::make_shared<std::uint32_t>(0);
  commands
      .AddChange("slow", "Let every call on the GPU take this long",
                 [milliseconds](NodeState& node, std::uint32_t gpu) -> base::Status {
                   node.gpus[gpu].slow_milliseconds = *milliseconds;
                   return {};
                 })
      ->add_option("milliseconds", *milliseconds, "0 ends it")
      ->required()
      ->check(CLI::Range(0, 600000));
  commands.AddChange("hang", "Let every call on the GPU hang until gpu restore",
                     [](NodeState& node, std::uint32_t gpu) -> base::Status {
                       node.gpus[gpu].slow_milliseconds = kHangs;
                       return {};
                     });
  const auto word = std::make_shared<std::string>();
  commands
      .Add("driver", "Let every call of NVML hang, whatever it is about, or end that",
           [word](const std::string& state) -> base::Status {
             TRY_ASSIGN(const auto file, StateFile::Open(state));
             return file->Update([&](NodeState& node) {
               const std::uint32_t hangs = *word == "hang" ? 1 : 0;
               const bool changes = node.driver_hangs != hangs;
               node.driver_hangs = hangs;
               return changes;
             });
           })
      ->add_option("what", *word, "hang or restore")
      ->required()
      ->check(CLI::IsMember({"hang", "restore"}));
  commands.AddChange("restore", "End loss, unknown errors, slowness and hanging",
                     [](NodeState& node, std::uint32_t gpu) -> base::Status {
                       RestoreGpu(node.gpus[gpu]);
                       return {};
                     });
}

void AddEcc(GpuCommands& commands) {
  struct Ecc {
    std::uint64_t count = 1;
    bool uncorrected = false;
    bool sram_threshold = false;
  };
  const auto ecc = std::make_shared<Ecc>();
  auto* errors = commands.AddChange(
      "ecc", "Count ECC errors", [ecc](NodeState& node, std::uint32_t gpu) -> base::Status {
        if (node.gpus[gpu].ecc_current == 0) {
          return base::Fail({base::Code::kConflict, "EccOff",
                             fmt::format("cannot count ECC errors of GPU {}: ECC is off", gpu)});
        }
        AddEccErrors(node, gpu, ecc->uncorrected, ecc->count);
        if (ecc->sram_threshold) node.gpus[gpu].sram_threshold_exceeded = 1;
        return {};
      });
  errors->add_flag("--uncorrected", ecc->uncorrected, "double-bit errors (also XID 48)");
  errors->add_option("--count", ecc->count, "how many")->capture_default_str();
  errors->add_flag("--sram-threshold", ecc->sram_threshold,
                   "more SRAM errors than the board may have");
}

void AddRows(GpuCommands& commands) {
  const auto rows = std::make_shared<RowRemapping>();
  auto* remap =
      commands.AddChange("rows", "Remap rows of the memory (retire pages on boards that cannot)",
                         [rows](NodeState& node, std::uint32_t gpu) -> base::Status {
                           AddRemappedRows(node, gpu, *rows);
                           return {};
                         });
  remap->add_option("--correctable", rows->correctable, "rows given up for corrected errors");
  remap->add_option("--uncorrectable", rows->uncorrectable, "rows given up for uncorrected errors");
  remap->add_flag("--pending", rows->pending, "takes effect at the next reset (XID 63)");
  remap->add_flag("--failure", rows->failure, "no row is left to remap to (XID 64); stays");
}

void AddBadMemory(GpuCommands& commands) {
  struct Stuck {
    std::uint64_t byte = 0;
    std::uint32_t bits = 0;
  };
  const auto stuck = std::make_shared<Stuck>();
  auto* bad = commands.AddChange(
      "bad-memory", "Let bits of one byte of the memory read as 1 whatever is written",
      [stuck](NodeState& node, std::uint32_t gpu) -> base::Status {
        if (stuck->byte >= node.gpus[gpu].memory_total) {
          return base::Fail(base::Invalid(
              "NoSuchByte", fmt::format("GPU {} has {} bytes of memory; {} is behind its end", gpu,
                                        node.gpus[gpu].memory_total, stuck->byte)));
        }
        node.gpus[gpu].stuck_byte = stuck->byte;
        node.gpus[gpu].stuck_bits = stuck->bits;
        return {};
      });
  bad->add_option("bits", stuck->bits, "which bits, as a number from 0 to 255; 0 ends it")
      ->required()
      ->check(CLI::Range(0, 255));
  bad->add_option("--byte", stuck->byte, "position in the memory, from its beginning");
}

void AddRecovery(GpuCommands& commands) {
  const auto action = std::make_shared<std::string>();
  commands
      .AddChange("recovery", "Set the recovery action that NVML says is needed",
                 [action](NodeState& node, std::uint32_t gpu) -> base::Status {
                   node.gpus[gpu].recovery_action = kRecoveryActions.at(*action);
                   return {};
                 })
      ->add_option("action", *action)
      ->required()
      ->check(CLI::IsMember(Words(kRecoveryActions)));
}

void AddThrottling(GpuCommands& commands) {
  const auto reasons = std::make_shared<std::vector<std::string>>();
  commands
      .AddChange("throttle", "Hold the clocks down; the time is counted for each reason",
                 [reasons](NodeState& node, std::uint32_t gpu) -> base::Status {
                   std::uint64_t bits = 0;
                   for (const auto& word : *reasons) bits |= kThrottleWords.at(word);
                   SetThrottleReasons(node.gpus[gpu], bits, RealtimeNow());
                   return {};
                 })
      ->add_option("reasons", *reasons, "one or more; none ends it")
      ->required()
      ->check(CLI::IsMember(Words(kThrottleWords)));
}

void AddLinkFaults(GpuCommands& commands) {
  struct Options {
    std::uint32_t link = 0;
    std::array<std::uint64_t, kLinkCounters> errors{};
    bool down = false;
    bool up = false;
  };
  const auto options = std::make_shared<Options>();
  auto* nvlink = commands.AddChange(
      "nvlink", "Count errors of an NVLink, take it down or up again",
      [options](NodeState& node, std::uint32_t gpu) -> base::Status {
        if (options->link >= node.gpus[gpu].link_count) {
          return base::Fail(
              base::Invalid("NoSuchLink", fmt::format("GPU {} has no link {}; it has {}", gpu,
                                                      options->link, node.gpus[gpu].link_count)));
        }
        for (std::uint32_t counter = 0; counter < kLinkCounters; ++counter) {
          AddLinkErrors(node, gpu, options->link, counter, options->errors[counter]);
        }
        if (options->down || options->up) SetLinkDown(node, gpu, options->link, options->down);
        return {};
      });
  nvlink->add_option("link", options->link, "number of the link")->required();
  constexpr std::array kCounters = {"--replay", "--recovery", "--crc-flit", "--crc-data", "--ecc"};
  for (std::size_t i = 0; i < kCounters.size(); ++i) {
    nvlink->add_option(kCounters[i], options->errors[i], "errors to add");
  }
  auto* down = nvlink->add_flag("--down", options->down, "the link goes down (XID 74)");
  nvlink->add_flag("--up", options->up, "the link comes up")->excludes(down);

  const auto health = std::make_shared<std::string>();
  commands
      .AddChange("fabric", "Set how healthy the GPU's place in its NVLink fabric is",
                 [health](NodeState& node, std::uint32_t gpu) -> base::Status {
                   if (node.gpus[gpu].fabric_state == 0) {
                     return base::Fail({base::Code::kConflict, "NoFabric",
                                        fmt::format("GPU {} is in no NVLink fabric", gpu)});
                   }
                   node.gpus[gpu].fabric_health = kFabricHealth.at(*health);
                   return {};
                 })
      ->add_option("health", *health)
      ->required()
      ->check(CLI::IsMember(Words(kFabricHealth)));
}

void AddPcieFaults(GpuCommands& commands) {
  struct Pcie {
    std::uint32_t replays = 0;
    std::uint32_t correctable = 0;
    std::optional<std::uint32_t> generation;
    std::optional<std::uint32_t> width;
  };
  const auto pcie = std::make_shared<Pcie>();
  auto* command = commands.AddChange(
      "pcie", "Count errors of the PCIe link, or let it train to less than it can",
      [pcie](NodeState& node, std::uint32_t gpu) -> base::Status {
        GpuState& state = node.gpus[gpu];
        state.pcie_replays += pcie->replays;
        state.pcie_correctable_errors += pcie->correctable;
        if (pcie->generation.value_or(0) > state.pcie_generation ||
            pcie->width.value_or(0) > state.pcie_width) {
          return base::Fail(base::Invalid(
              "NoSuchLink", fmt::format("the link of GPU {} has at most generation {} and {} lanes",
                                        gpu, state.pcie_generation, state.pcie_width)));
        }
        state.pcie_trained_generation = pcie->generation.value_or(state.pcie_trained_generation);
        state.pcie_trained_width = pcie->width.value_or(state.pcie_trained_width);
        return {};
      });
  command->add_option("--replays", pcie->replays, "replays to add");
  command->add_option("--correctable", pcie->correctable, "correctable errors to add");
  command->add_option("--generation", pcie->generation, "of PCIe; 0: the highest");
  command->add_option("--width", pcie->width, "lanes; 0: all");
}

}  // namespace

void AddFaultCommands(GpuCommands& commands) {
  AddXid(commands);
  AddLosses(commands);
  AddEcc(commands);
  AddRows(commands);
  AddBadMemory(commands);
  AddRecovery(commands);
  AddThrottling(commands);
  AddLinkFaults(commands);
  AddPcieFaults(commands);
}

}  // namespace pitcrew::simulation

// What is done with single GPUs while things run: load, processes, MIG, reset. Faults:
// fault_commands.cc.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "nvml/abi_metrics.h"
#include "simulation/program/commands.h"
#include "simulation/program/gpu_selection.h"
#include "simulation/state/incidents.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

base::Status Refused(nvml::abi::Return code, const char* what) {
  if (code == nvml::abi::kSuccess) return {};
  const char* why = code == nvml::abi::kInUse          ? "it is in use"
                    : code == nvml::abi::kNotSupported ? "it cannot do that"
                                                       : "it refused";
  return base::Fail({base::Code::kConflict, "Refused", fmt::format("cannot {}: {}", what, why)});
}

std::string NotesOn(const GpuState& gpu) {
  std::string notes;
  if (gpu.lost != 0) notes += " lost";
  if (gpu.unknown_error != 0) notes += " unknown-error";
  if (gpu.slow_milliseconds == kHangs) {
    notes += " hangs";
  } else if (gpu.slow_milliseconds != 0) {
    notes += fmt::format(" slow={}ms", gpu.slow_milliseconds);
  }
  if (gpu.recovery_action != 0) notes += fmt::format(" recovery-action={}", gpu.recovery_action);
  if (gpu.remap_pending != 0) notes += " remap-pending";
  if (gpu.remap_failure != 0) notes += " remap-failure";
  if (gpu.throttle.reasons != 0) notes += fmt::format(" throttle={:#x}", gpu.throttle.reasons);
  if (PcieGeneration(gpu) != gpu.pcie_generation || PcieWidth(gpu) != gpu.pcie_width) {
    notes += fmt::format(" pcie=gen{}x{}", PcieGeneration(gpu), PcieWidth(gpu));
  }
  if (gpu.stuck_bits != 0) {
    notes += fmt::format(" stuck-bits={:#x}@{}", gpu.stuck_bits, gpu.stuck_byte);
  }
  if (gpu.links_down != 0) notes += fmt::format(" links-down={:#x}", gpu.links_down);
  if (gpu.mig_current != 0) notes += fmt::format(" mig={}", ListMigDevices(gpu).size());
  return notes;
}

base::Status List(const std::string& state) {
  TRY_ASSIGN(const auto file, StateFile::Open(state));
  const auto node = file->Snapshot();
  for (std::uint32_t i = 0; i < node->gpu_count; ++i) {
    const GpuState& gpu = node->gpus[i];
    fmt::print("{:>2}  {}  {:<24} load={}%{}\n", i, gpu.uuid, gpu.name, gpu.load, NotesOn(gpu));
  }
  return {};
}

void AddLoad(GpuCommands& commands) {
  struct Options {
    std::uint32_t percent = 0;
    std::optional<std::uint32_t> encoder;
    std::optional<std::uint32_t> decoder;
    std::optional<std::uint32_t> jpeg;
    std::optional<std::uint32_t> ofa;
  };
  const auto options = std::make_shared<Options>();
  auto* load =
      commands.AddChange("load", "Set how busy the GPU is",
                         [options](NodeState& node, std::uint32_t gpu) -> base::Status {
                           GpuState& state = node.gpus[gpu];
                           SetLoad(state, options->percent, RealtimeNow());
                           state.load_encoder = options->encoder.value_or(state.load_encoder);
                           state.load_decoder = options->decoder.value_or(state.load_decoder);
                           state.load_jpeg = options->jpeg.value_or(state.load_jpeg);
                           state.load_ofa = options->ofa.value_or(state.load_ofa);
                           return {};
                         });
  const auto percent = CLI::Range(0, 100);
  load->add_option("percent", options->percent, "0 to 100")->required()->check(percent);
  load->add_option("--encoder", options->encoder, "percent of the video encoders")->check(percent);
  load->add_option("--decoder", options->decoder, "percent of the video decoders")->check(percent);
  load->add_option("--jpeg", options->jpeg, "percent of the JPEG engines")->check(percent);
  load->add_option("--ofa", options->ofa, "percent of the optical flow engines")->check(percent);

  struct Gpm {
    std::uint32_t metric = 0;
    double value = 0;
    bool clear = false;
  };
  const auto gpm = std::make_shared<Gpm>();
  auto* command = commands.AddChange(
      "gpm", "Give a GPM metric a value in place of what follows from the load",
      [gpm](NodeState& node, std::uint32_t gpu) -> base::Status {
        GpuState& state = node.gpus[gpu];
        if (gpm->clear) {
          for (auto& value : state.gpm_values) {
            if (value.metric == gpm->metric) value = {};
          }
          return {};
        }
        if (SetGpmValue(state, gpm->metric, gpm->value)) return {};
        return base::Fail({base::Code::kTooMany, "TooManyValues",
                           fmt::format("a simulated GPU keeps {} given GPM values at most; "
                                       "end one with --clear",
                                       kMaxGpmValues)});
      });
  command->add_option("metric", gpm->metric, "NVML's number of the metric, 1 is graphics activity")
      ->required()
      ->check(CLI::Range(1u, nvml::abi::gpm::kMetricMax - 1));
  auto* value = command->add_option("value", gpm->value, "in the metric's own unit");
  command->add_flag("--clear", gpm->clear, "follow the load again")->excludes(value);
}

void AddProcesses(GpuCommands& commands) {
  struct Options {
    std::uint32_t pid = 0;
    std::uint32_t gpu_instance = kNoInstance;
    std::uint32_t compute_instance = kNoInstance;
    std::uint64_t memory_mib = 512;
    std::string name = "simulated";
    bool remove = false;
    bool graphics = false;
  };
  const auto options = std::make_shared<Options>();
  auto* process = commands.AddChange(
      "process", "Put a process on the GPU, or take it off",
      [options](NodeState& node, std::uint32_t gpu) -> base::Status {
        GpuState& state = node.gpus[gpu];
        if (options->remove) {
          if (RemoveProcess(state, options->pid)) return {};
          return base::Fail(base::NotFound("NoSuchProcess", "the process is not on this GPU"));
        }
        if (AddProcess(state, options->pid, options->name, options->memory_mib << 20,
                       options->graphics, options->gpu_instance, options->compute_instance)) {
          return {};
        }
        return base::Fail(
            {base::Code::kTooMany, "TooManyProcesses",
             fmt::format("a simulated GPU lists {} processes at most", kMaxProcesses)});
      });
  process->add_option("pid", options->pid, "process id")->required()->check(CLI::PositiveNumber);
  process->add_flag("--remove", options->remove, "take it off");
  process->add_flag("--graphics", options->graphics, "a graphics process");
  process->add_option("--memory-mib", options->memory_mib, "GPU memory that it uses")
      ->capture_default_str();
  process->add_option("--name", options->name, "program name")->capture_default_str();
  process->add_option("--gpu-instance", options->gpu_instance, "id of a MIG GPU instance");
  process->add_option("--compute-instance", options->compute_instance,
                      "id of a MIG compute instance");
}

void AddModes(GpuCommands& commands) {
  commands.AddChange(
      "reset",
      "Reset the GPU: pending modes and remappings take effect, counters since the last reset and "
      "what only a reset ends are gone",
      [](NodeState& node, std::uint32_t gpu) {
        return Refused(ResetGpu(node.gpus[gpu]), "reset the GPU");
      });
  const auto mode = std::make_shared<std::string>();
  commands
      .AddChange("mig", "Switch MIG mode on or off",
                 [mode](NodeState& node, std::uint32_t gpu) {
                   nvml::abi::Return activation = nvml::abi::kSuccess;
                   const auto code = SetMigMode(node.gpus[gpu], *mode == "on", activation);
                   if (code == nvml::abi::kSuccess && activation != nvml::abi::kSuccess) {
                     fmt::print("GPU {}: pending until it is reset (in use)\n", gpu);
                   }
                   return Refused(code, "change the MIG mode");
                 })
      ->add_option("mode", *mode, "on or off")
      ->required()
      ->check(CLI::IsMember({"on", "off"}));
}

}  // namespace

void AddGpuCommands(CLI::App& app, int& exit_code) {
  auto* gpu = app.add_subcommand(
      "gpu", "Let things happen to GPUs while they are used; a GPU is an index, a UUID or all");
  gpu->require_subcommand(1);
  GpuCommands commands(*gpu, exit_code);
  commands.Add("list", "List the GPUs, and what is wrong with them", List);
  AddLoad(commands);
  AddProcesses(commands);
  AddModes(commands);
  AddFaultCommands(commands);
}

}  // namespace pitcrew::simulation

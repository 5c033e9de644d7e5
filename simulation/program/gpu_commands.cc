// What happens to single GPUs while things run.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "nvml/abi.h"
#include "simulation/program/commands.h"
#include "simulation/state/discovery.h"
#include "simulation/state/incidents.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

struct Options {
  std::string state = kStatePath;
  std::string gpu;
  std::uint64_t number = 0;
  std::uint32_t gpu_instance = kNoInstance;
  std::uint32_t compute_instance = kNoInstance;
  std::uint64_t count = 1;
  std::uint64_t memory_mib = 512;
  std::string name = "simulated";
  bool uncorrected = false;
  bool remove = false;
  bool graphics = false;
  std::string word;
};

// `gpu` is an index, a UUID or "all".
base::Result<std::vector<std::uint32_t>> Select(const NodeState& node, const std::string& gpu) {
  std::vector<std::uint32_t> selected;
  const auto index = base::ParseUnsigned(gpu);
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) {
    if (gpu == "all" || (index && *index == i) || gpu == node.gpus[i].uuid) selected.push_back(i);
  }
  if (!selected.empty()) return selected;
  return base::Fail(base::Invalid(
      "NoSuchGpu", fmt::format("there is no GPU \"{}\"; give an index from 0 to {}, a UUID or all",
                               gpu, node.gpu_count == 0 ? 0 : node.gpu_count - 1)));
}

using Change = std::function<base::Status(NodeState&, std::uint32_t gpu)>;

base::Status Apply(const Options& options, const Change& change) {
  TRY_ASSIGN(const auto file, StateFile::Open(options.state));
  base::Status result;
  TRY(file->Update([&](NodeState& node) {
    const auto selected = Select(node, options.gpu);
    if (!selected) result = base::Fail(selected.error());
    for (std::size_t i = 0; result && i < selected->size(); ++i) {
      result = change(node, (*selected)[i]);
    }
    return result.has_value();
  }));
  return result;
}

base::Status Refused(nvml::abi::Return code, const char* what) {
  if (code == nvml::abi::kSuccess) return {};
  const char* why = code == nvml::abi::kInUse          ? "it is in use"
                    : code == nvml::abi::kNotSupported ? "it cannot do that"
                                                       : "it refused";
  return base::Fail({base::Code::kConflict, "Refused", fmt::format("cannot {}: {}", what, why)});
}

base::Status List(const Options& options) {
  TRY_ASSIGN(const auto file, StateFile::Open(options.state));
  const auto node = file->Snapshot();
  for (std::uint32_t i = 0; i < node->gpu_count; ++i) {
    const GpuState& gpu = node->gpus[i];
    std::string notes;
    if (gpu.lost != 0) notes += " lost";
    if (gpu.unknown_error != 0) notes += " unknown-error";
    if (gpu.slow_milliseconds != 0) notes += fmt::format(" slow={}ms", gpu.slow_milliseconds);
    if (gpu.mig_current != 0) notes += fmt::format(" mig={}", ListMigDevices(gpu).size());
    fmt::print("{:>2}  {}  {:<24} load={}%{}\n", i, gpu.uuid, gpu.name, gpu.load, notes);
  }
  return {};
}

base::Status Xid(const Options& options) {
  return Apply(options, [&](NodeState& node, std::uint32_t gpu) -> base::Status {
    AddEvent(node, gpu, nvml::abi::kEventXid, options.number, options.gpu_instance,
             options.compute_instance);
    return {};
  });
}

base::Status Lose(const Options& options) {
  return Apply(options, [](NodeState& node, std::uint32_t gpu) -> base::Status {
    LoseGpu(node, gpu);
    return {};
  });
}

base::Status Restore(const Options& options) {
  return Apply(options, [](NodeState& node, std::uint32_t gpu) -> base::Status {
    RestoreGpu(node.gpus[gpu]);
    return {};
  });
}

base::Status UnknownError(const Options& options) {
  return Apply(options, [](NodeState& node, std::uint32_t gpu) -> base::Status {
    node.gpus[gpu].unknown_error = 1;
    return {};
  });
}

base::Status Slow(const Options& options) {
  return Apply(options, [&](NodeState& node, std::uint32_t gpu) -> base::Status {
    node.gpus[gpu].slow_milliseconds = static_cast<std::uint32_t>(options.number);
    return {};
  });
}

base::Status Load(const Options& options) {
  return Apply(options, [&](NodeState& node, std::uint32_t gpu) -> base::Status {
    SetLoad(node.gpus[gpu], static_cast<std::uint32_t>(options.number), RealtimeNow());
    return {};
  });
}

base::Status Ecc(const Options& options) {
  return Apply(options, [&](NodeState& node, std::uint32_t gpu) -> base::Status {
    if (node.gpus[gpu].ecc_current == 0) {
      return Refused(nvml::abi::kNotSupported, "count ECC errors: ECC is off");
    }
    AddEccErrors(node, gpu, options.uncorrected, options.count);
    return {};
  });
}

base::Status Process(const Options& options) {
  return Apply(options, [&](NodeState& node, std::uint32_t gpu) -> base::Status {
    const auto pid = static_cast<std::uint32_t>(options.number);
    if (options.remove) {
      if (RemoveProcess(node.gpus[gpu], pid)) return {};
      return base::Fail(base::NotFound("NoSuchProcess", "the process is not on this GPU"));
    }
    if (AddProcess(node.gpus[gpu], pid, options.name, options.memory_mib << 20, options.graphics,
                   options.gpu_instance, options.compute_instance)) {
      return {};
    }
    return base::Fail({base::Code::kTooMany, "TooManyProcesses",
                       fmt::format("a simulated GPU lists {} processes at most", kMaxProcesses)});
  });
}

base::Status Reset(const Options& options) {
  return Apply(options, [](NodeState& node, std::uint32_t gpu) {
    return Refused(ResetGpu(node.gpus[gpu]), "reset the GPU");
  });
}

base::Status Mig(const Options& options) {
  return Apply(options, [&](NodeState& node, std::uint32_t gpu) {
    nvml::abi::Return activation = nvml::abi::kSuccess;
    const auto code = SetMigMode(node.gpus[gpu], options.word == "on", activation);
    if (code == nvml::abi::kSuccess && activation != nvml::abi::kSuccess) {
      fmt::print("GPU {}: pending until it is reset (in use)\n", gpu);
    }
    return Refused(code, "change the MIG mode");
  });
}

class Commands {
 public:
  Commands(CLI::App& app, int& exit_code) : app_(app), exit_code_(exit_code) {}

  CLI::App* Add(const char* name, const char* help, base::Status (*action)(const Options&),
                bool on_gpu = true) {
    auto* command = app_.add_subcommand(name, help);
    command->add_option("--state", options_->state, "state file")->capture_default_str();
    if (on_gpu) command->add_option("gpu", options_->gpu, "index, UUID or all")->required();
    command->callback([options = options_, &exit_code = exit_code_, action] {
      if (const auto status = action(*options); !status) exit_code = ExitCodeFor(status.error());
    });
    return command;
  }
  Options& options() { return *options_; }

 private:
  CLI::App& app_;
  int& exit_code_;
  std::shared_ptr<Options> options_ = std::make_shared<Options>();
};

}  // namespace

void AddGpuCommands(CLI::App& app, int& exit_code) {
  auto* gpu = app.add_subcommand("gpu", "Let things happen to GPUs while they are used");
  gpu->require_subcommand(1);
  Commands commands(*gpu, exit_code);
  Options& options = commands.options();
  const auto instances = [&](CLI::App* command) {
    command->add_option("--gpu-instance", options.gpu_instance, "id of a MIG GPU instance");
    command->add_option("--compute-instance", options.compute_instance,
                        "id of a MIG compute instance");
  };
  commands.Add("list", "List the GPUs", List, false);
  auto* xid = commands.Add("xid", "Report an XID error", Xid);
  xid->add_option("xid", options.number, "XID number")->required();
  instances(xid);
  commands.Add("lose", "Let the GPU fall off the bus (XID 79)", Lose);
  commands.Add("restore", "End loss, unknown errors and slowness", Restore);
  commands.Add("unknown-error", "Let every call on the GPU answer Unknown Error", UnknownError);
  commands.Add("slow", "Let every call on the GPU take this long", Slow)
      ->add_option("milliseconds", options.number, "0 ends it")
      ->required()
      ->check(CLI::Range(0, 600000));
  commands.Add("load", "Set how busy the GPU is", Load)
      ->add_option("percent", options.number, "0 to 100")
      ->required()
      ->check(CLI::Range(0, 100));
  auto* ecc = commands.Add("ecc", "Count ECC errors", Ecc);
  ecc->add_flag("--uncorrected", options.uncorrected, "double-bit errors (also XID 48)");
  ecc->add_option("--count", options.count, "how many")->capture_default_str();
  auto* process = commands.Add("process", "Put a process on the GPU, or take it off", Process);
  process->add_option("pid", options.number, "process id")->required()->check(CLI::PositiveNumber);
  process->add_flag("--remove", options.remove, "take it off");
  process->add_flag("--graphics", options.graphics, "a graphics process");
  process->add_option("--memory-mib", options.memory_mib, "GPU memory that it uses")
      ->capture_default_str();
  process->add_option("--name", options.name, "program name")->capture_default_str();
  instances(process);
  commands.Add("reset", "Reset the GPU: pending modes take effect", Reset);
  commands.Add("mig", "Switch MIG mode on or off", Mig)
      ->add_option("mode", options.word, "on or off")
      ->required()
      ->check(CLI::IsMember({"on", "off"}));
}

}  // namespace pitcrew::simulation

#include "node/driver_manager/manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "api/labels.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/driver_root.h"
#include "host/kernel.h"
#include "host/mounts.h"
#include "host/pci.h"
#include "host/process.h"
#include "io/file_watcher.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "kube/retry.h"
#include "node/driver_manager/eviction.h"
#include "node/driver_manager/operand_labels.h"

namespace pitcrew::node::driver_manager {
namespace {

constexpr std::chrono::minutes kOperandTimeout{5};
constexpr std::chrono::minutes kHostSmiTimeout{1};
constexpr std::chrono::minutes kMofedTimeout{30};
// In the order of their dependencies (4.10), with nvidia_drm, which upstream forgets.
constexpr std::array kModules = {"nvidia_drm", "nvidia_modeset",   "nvidia_uvm", "nvidia_peermem",
                                 "nvidia_fs",  "nvidia_vgpu_vfio", "gdrdrv",     "nvidia"};

struct PodApp {
  std::string app;
  bool operator==(const PodApp&) const = default;
};

// The version that the host's own nvidia-smi tells; kNotFound when the host has no working driver.
base::Result<std::string> HostDriverVersion(const Options& options, const io::StopToken& stop) {
  const host::Root root(options.host_root);
  TRY_ASSIGN(const auto program, host::FirstProgram(root, host::HostSmiPaths()));
  TRY_ASSIGN(const auto inside, root.Strip(program));
  host::ProgramRun run;
  run.program = inside.string();
  run.arguments = {"--query-gpu=driver_version", "--format=csv,noheader"};
  run.root = root.path();
  run.capture_output = true;
  run.deadline = std::chrono::steady_clock::now() + kHostSmiTimeout;
  run.stop_fd = stop.fd();
  TRY_ASSIGN(const auto end, host::RunProgram(run));
  const auto lines = base::SplitTrimmed(end.output, '\n');
  if (end.exit_status == 0 && !lines.empty()) return lines.front();
  return base::Fail(base::NotFound(
      "HostDriverNotWorking",
      fmt::format("the host's nvidia-smi ended with exit status {}", end.exit_status)));
}

class Manager {
 public:
  Manager(const Options& options, std::shared_ptr<kube::Client> client, const io::StopToken& stop)
      : options_(options), client_(std::move(client)), stop_(stop) {}

  base::Status Run() {
    TRY(RefuseHostDriver());
    TRY_ASSIGN(const auto node, GetNode(stop_));
    TRY_ASSIGN(const auto state, ObserveNode(options_, node));
    const base::Status done = state.driver_loaded ? RemoveLoaded(state) : RemoveRemains(node);
    // Whatever happened: a node is never left with its operands paused. Told to stop, the clean-up
    // still has to reach the API server, so it does not listen to the stop.
    const base::Status resumed = Resume();
    if (!done) {
      if (!resumed) base::LogError("The operands could not be resumed", resumed.error());
      return done;
    }
    TRY(resumed);
    base::LogInfo("The node is ready for a driver container", {{"node", options_.node_name}});
    return {};
  }

 private:
  base::Result<codec::Json> GetNode(const io::StopToken& stop) {
    return client_->Get(kube::kNodes, {"", options_.node_name}, stop);
  }

  base::Status PatchNode(const codec::Json& patch, const io::StopToken& stop) {
    kube::WriteOptions as;
    as.field_manager = "driver-manager";
    constexpr int kTries = 7;
    constexpr kube::BackoffPolicy kBackoff{.base = std::chrono::milliseconds(1000),
                                           .cap = std::chrono::milliseconds(32000),
                                           .jitter = 0.0};
    for (int tries = 1;; ++tries) {
      const auto patched = client_->Patch(kube::kNodes, {"", options_.node_name},
                                          kube::PatchType::kMerge, patch, as, stop);
      if (patched) return {};
      if (tries == kTries || stop.WaitFor(kBackoff.Delay(tries))) {
        return base::Fail(patched.error().Within("patch node " + options_.node_name));
      }
    }
  }

  // A driver container must not start beside a driver of the host (step 1).
  base::Status RefuseHostDriver() {
    const auto version = HostDriverVersion(options_, stop_);
    if (!version) {
      if (version.error().code == base::Code::kCancelled) return base::Fail(version.error());
      base::LogInfo("The host has no driver of its own", {{"reason", version.error().message}});
      return {};
    }
    TRY(PatchNode(
        {{"metadata", {{"labels", {{std::string(api::kDeployDriver), "pre-installed"}}}}}}, stop_));
    base::LogWarning("The host has a driver of its own; the operator is told so",
                     {{"version", *version}});
    [[maybe_unused]] const bool stopped = stop_.WaitFor(options_.preinstalled_pause);
    return base::Fail(base::Error{
        base::Code::kUnsupported, "DriverPreinstalled",
        fmt::format(
            "driver {} is installed on the host: a driver container cannot be used on node {}",
            *version, options_.node_name)});
  }

  // The driver is loaded: whoever uses it has to let go first (steps 5 to 10).
  base::Status RemoveLoaded(const NodeState& state) {
    TRY(PauseAndAwait());
    if (state.driver_kept) {
      base::LogInfo("The loaded driver is the one that is wanted; it is kept");
      return RemoveRootfs();
    }
    const bool evict = options_.evict_gpu_pods && !state.upgrade_managed;
    if (evict) {
      TRY(Cordon());
      TRY(EvictGpuPods(options_, client_, stop_));
    }
    TRY(UnloadModules());
    TRY(RemoveRootfs());
    TRY(UnloadNouveau());
    return AwaitMofed();
  }

  // Nothing is loaded: what an earlier driver container has left is taken away.
  base::Status RemoveRemains(const codec::Json& node) {
    if (!LabelOf(node, api::kDeployDraDriver).empty()) TRY(PauseAndAwait());
    TRY(RemoveRootfs());
    TRY(UnloadNouveau());
    return AwaitMofed();
  }

  base::Status PauseAndAwait() {
    TRY_ASSIGN(const auto node, GetNode(stop_));
    if (const auto patch = PausePatch(node, options_.custom_pause_label)) {
      base::LogInfo("The operands of this node are paused");
      TRY(PatchNode(*patch, stop_));
    }
    std::set<std::string> apps;
    for (const auto& operand : OperandLabels()) {
      if (!operand.app.empty()) apps.emplace(operand.app);
    }
    kube::InformerOptions selection;
    selection.namespace_name = options_.namespace_name;
    selection.field_selector = "spec.nodeName=" + options_.node_name;
    std::string remaining;
    const base::Status gone = kube::Await<PodApp>(
        client_, kube::kPods,
        kube::ProjectJson<PodApp>([](const codec::Json& pod) -> base::Result<PodApp> {
          return PodApp{LabelOf(pod, api::kAppLabel)};
        }),
        selection,
        [&](const kube::Store<PodApp>& store) -> base::Result<bool> {
          remaining.clear();
          for (const auto& [key, pod] : store.Snapshot()) {
            if (apps.contains(pod->app)) remaining += " " + key.name;
          }
          return remaining.empty();
        },
        stop_, std::chrono::steady_clock::now() + kOperandTimeout);
    if (gone || gone.error().code != base::Code::kTimeout) return gone;
    return base::Fail(base::Error{base::Code::kTimeout, "OperandsStillRunning",
                                  "paused operands did not end in time:" + remaining});
  }

  base::Status Cordon() {
    TRY_ASSIGN(const auto node, GetNode(stop_));
    const auto* unschedulable = codec::Find(node, {"spec", "unschedulable"});
    if (unschedulable != nullptr && *unschedulable == true) return {};
    return PatchNode({{"metadata", {{"annotations", {{std::string(kCordonedAnnotation), "true"}}}}},
                      {"spec", {{"unschedulable", true}}}},
                     stop_);
  }

  // Labels back to what they were, and the node schedulable again if this program (this time or
  // before a crash) had cordoned it.
  base::Status Resume() {
    const io::StopToken never;
    TRY_ASSIGN(const auto node, GetNode(never));
    auto patch = ResumePatch(node, options_.custom_pause_label).value_or(codec::Json::object());
    if (AnnotationOf(node, kCordonedAnnotation) == "true") {
      patch["metadata"]["annotations"][std::string(kCordonedAnnotation)] = nullptr;
      patch["spec"]["unschedulable"] = nullptr;
    }
    if (patch.empty()) return {};
    return PatchNode(patch, never);
  }

  base::Status UnloadModules() {
    std::vector<std::string> failures;
    for (const auto* module : kModules) {
      const auto references = host::ReadModuleReferences(module, options_.sys);
      if (references.is_absent()) continue;
      if (const auto unloaded = options_.unload_module(module); !unloaded) {
        failures.push_back(unloaded.error().message);
      }
    }
    if (failures.empty()) return {};
    return base::Fail(base::Unavailable(
        "DriverStillInUse",
        fmt::format("the driver cannot be unloaded: {}; end the programs that use "
                    "the GPUs of this node",
                    base::Join(failures, "; "))));
  }

  base::Status UnloadNouveau() {
    if (host::ReadModuleReferences("nouveau", options_.sys).is_absent()) return {};
    return options_.unload_module("nouveau");
  }

  base::Status RemoveRootfs() {
    TRY(host::DetachMounts(options_.run_folder / "driver"));
    std::error_code error;
    std::filesystem::remove(options_.run_folder / "nvidia-driver.pid", error);
    if (error) {
      base::LogWarning("The PID file of the old driver container stays",
                       {{"reason", error.message()}});
    }
    return {};
  }

  // GPUDirect RDMA needs the network driver before the GPU driver (4.11).
  base::Status AwaitMofed() {
    if (!options_.gpu_direct_rdma) return {};
    TRY_ASSIGN(const auto scan, host::ReadPciDevices(options_.sys / "bus/pci/devices"));
    const bool has_card = std::ranges::any_of(
        scan.devices, [](const auto& device) { return device.vendor == host::kVendorMellanox; });
    if (!has_card) return {};
    const auto deadline = std::chrono::steady_clock::now() + kMofedTimeout;
    if (!options_.host_mofed) {
      return io::WaitForFiles(
          {options_.mofed_ready.parent_path()}, [&] { return host::Exists(options_.mofed_ready); },
          stop_, deadline);
    }
    constexpr std::chrono::seconds kModulePause{2};
    while (true) {
      TRY_ASSIGN(const auto modules, host::ReadLoadedModules(options_.proc));
      if (std::ranges::find(modules, "mlx5_core") != modules.end()) return {};
      if (std::chrono::steady_clock::now() >= deadline || stop_.WaitFor(kModulePause)) {
        return base::Fail(base::Unavailable("NetworkDriverMissing",
                                            "kernel module mlx5_core is not loaded on the host"));
      }
    }
  }

  const Options& options_;
  std::shared_ptr<kube::Client> client_;
  const io::StopToken& stop_;
};

}  // namespace

base::Result<NodeState> ObserveNode(const Options& options, const codec::Json& node) {
  NodeState state;
  state.upgrade_managed = AnnotationOf(node, api::kUpgradeEnabledAnnotation) == "true";
  const auto module = host::ReadModuleReferences("nvidia", options.sys);
  if (module.is_unknown()) return base::Fail(*module.error());
  state.driver_loaded = module.is_present();
  if (!state.driver_loaded || options.force_reinstall || options.config_digest.empty())
    return state;
  const auto stored = base::ReadFile(options.run_folder / "nvidia-driver.state");
  state.driver_kept = stored && base::Trim(*stored) == options.config_digest;
  return state;
}

base::Status UninstallDriver(const Options& options, const std::shared_ptr<kube::Client>& client,
                             const io::StopToken& stop) {
  return Manager(options, client, stop).Run();
}

}  // namespace pitcrew::node::driver_manager

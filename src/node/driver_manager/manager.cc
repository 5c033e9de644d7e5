#include "node/driver_manager/manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "api/labels.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/node.h"
#include "desired/workload.h"
#include "host/driver_root.h"
#include "host/kernel.h"
#include "host/mounts.h"
#include "host/pci.h"
#include "host/process.h"
#include "node/driver_manager/eviction.h"
#include "node/driver_manager/former_users.h"
#include "node/driver_manager/gpu_owners.h"
#include "node/driver_manager/loaded_driver.h"
#include "node/driver_manager/network_driver.h"
#include "node/driver_manager/operand_labels.h"
#include "node/driver_manager/preflight.h"
#include "node/own_node/own_node.h"
#include "node/validations/status_folder.h"
#include "workload/cordon.h"
#include "workload/pause.h"

namespace pitcrew::node::driver_manager {
namespace {

constexpr std::chrono::minutes kOperandTimeout{5};
constexpr const char* kDigestFile =
    "nvidia-driver.state";  // of the configuration of a loaded driver

// The version that the host's own nvidia-smi tells; kNotFound when the host has no working driver,
// kTimeout where the program hangs, as it does on a driver that is loaded and stuck.
base::Result<std::string> HostDriverVersion(const Options& options, const io::StopToken& stop) {
  const host::Root root(options.host_root);
  TRY_ASSIGN(const auto program, host::FirstProgram(root, host::HostSmiPaths()));
  TRY_ASSIGN(const auto inside, root.Strip(program));
  host::ProgramRun run;
  run.program = inside.string();
  run.arguments = {"--query-gpu=driver_version", "--format=csv,noheader"};
  run.root = root.path();
  run.capture_output = true;
  run.deadline = std::chrono::steady_clock::now() + options.host_smi_timeout;
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
      : options_(options),
        client_(client),
        node_(std::move(client),
              {.node_name = options.node_name, .component = "driver-manager", .pod_name = ""}),
        stop_(stop) {}

  base::Status Run() {
    const base::Status done = PrepareNode();
    if (!done && done.error().code != base::Code::kCancelled && !preinstalled_) {
      node_.Record(kube::EventType::kWarning, done.error().reason, done.error().message);
    }
    // Whatever happened, and whatever a run before this one was killed at: a node is never left
    // with its operands paused. Told to stop, the clean-up still has to reach the API server, so it
    // does not listen to the stop.
    const base::Status resumed = Resume();
    node_.FlushEvents();
    // The DaemonSet's node selector takes the pod away meanwhile.
    if (preinstalled_) {
      [[maybe_unused]] const bool stopped = stop_.WaitFor(options_.preinstalled_pause);
    }
    if (!done) {
      if (!resumed) base::LogError("The operands could not be resumed", resumed.error());
      return done;
    }
    TRY(resumed);
    base::LogInfo("The node is ready for a driver container", {{"node", options_.node_name}});
    return {};
  }

 private:
  base::Status PrepareNode() {
    TRY(RefuseHostDriver());
    TRY_ASSIGN(const auto node, node_.Read(stop_));
    TRY_ASSIGN(const auto state, ObserveNode(options_, node));
    // The VFIO manager's pod runs this program too; it builds nothing.
    if (!state.passthrough && !state.driver_kept) TellBuildObstacles();
    return Prepare(state, node);
  }

  base::Status Prepare(const NodeState& state, const codec::Json& node) {
    if (state.hands.refusal) {
      Tell("The node is not divided between containers and virtual machines as it was asked for",
           {state.hands.refusal->code, "GpuSplitRefused", state.hands.refusal->ToString()});
    }
    const bool is_for_another_use = state.validated_for_another_use || state.hands.leave_vfio;
    // Their pods would go on serving what is about to be taken away, and would never look again.
    if (is_for_another_use) {
      base::LogInfo(
          "The node's GPUs were used in another way before; who relies on that has to go");
      TRY(PauseAndAwait(MachineOperandsToPause()));
    }
    TRY(AwaitFormerOwners(options_, client_, node, stop_));
    TRY(LetFormerUsersLeave(options_, client_, FormerUseOf(state),
                            {.before_evictions = [this] { return Cordon(); },
                             .tell =
                                 [this](const auto& why) {
                                   Tell("Pods hold the change of this node up, and are waited for",
                                        why);
                                 }},
                            stop_));
    // Last: they tell another run that pods of before may be there.
    if (is_for_another_use) TRY(RemoveValidations());
    return state.driver_loaded ? RemoveLoaded(state) : PrepareUnloaded(state);
  }

  // Who has GPUs for a use that the node does not have any more. While some still go to VFIO,
  // virtual machines may run on those that it has. What VFIO has now does not tell who had a GPU:
  // the VFIO manager takes back what nobody has open when it ends.
  static FormerUse FormerUseOf(const NodeState& state) {
    const Hands& hands = state.hands;
    if (state.passthrough) return {.containers = hands.go_to_vfio, .vgpus = hands.go_to_vfio};
    if (state.vgpus) return {.containers = true, .passthrough = true};
    return {.containers = hands.go_to_vfio,
            .passthrough = !hands.machines || hands.leave_vfio,
            .vgpus = true};
  }

  // The driver container may have a way around each of them: they explain why it fails, if it does.
  void TellBuildObstacles() {
    for (const auto& obstacle : FindBuildObstacles(ReadBuildFacts(options_))) {
      Tell("A driver may not come up on this node", obstacle);
    }
  }

  void Tell(std::string_view what, const base::Error& why) {
    base::LogWarning(what, why);
    node_.Record(kube::EventType::kWarning, why.reason, why.message);
  }

  // A pod that was stopped before it was ready has not taken them along.
  base::Status RemoveValidations() {
    const validations::StatusFolder status(options_.run_folder / "validations");
    for (const char* file : {validations::kVfioPciReady, validations::kVgpuManagerReady,
                             validations::kHostVgpuManagerReady, validations::kVgpuDevicesReady,
                             validations::kWorkloadType}) {
      TRY(status.Remove(file));
    }
    return {};
  }

  // A driver container must not start beside a driver of the host (step 1).
  base::Status RefuseHostDriver() {
    const auto version = HostDriverVersion(options_, stop_);
    if (!version) {
      if (version.error().code == base::Code::kCancelled) return base::Fail(version.error());
      if (version.error().code == base::Code::kTimeout) return RefuseUnknownHost(version.error());
      base::LogInfo("The host has no driver of its own", {{"reason", version.error().message}});
      return {};
    }
    TRY(node_.Patch(own_node::LabelPatch(api::kDeployDriver, std::string(api::kPreInstalled)),
                    stop_));
    base::LogWarning("The host has a driver of its own; the operator is told so",
                     {{"version", *version}});
    preinstalled_ = true;
    return base::Fail(base::Error{
        base::Code::kUnsupported, "DriverPreinstalled",
        fmt::format(
            "driver {} is installed on the host: a driver container cannot be used on node {}",
            *version, options_.node_name)});
  }

  // Nothing is touched that may be the host's.
  base::Status RefuseUnknownHost(const base::Error& why) {
    return base::Fail(base::Error{
        base::Code::kUnavailable, "HostDriverUnknown",
        fmt::format("whether node {} has a driver of its own cannot be told, and none is unloaded: "
                    "{}; run nvidia-smi on the node to see why it hangs",
                    options_.node_name, why.message)});
  }

  // The driver is loaded: whoever uses it has to let go first (steps 5 to 10).
  base::Status RemoveLoaded(const NodeState& state) {
    TRY(PauseAndAwait(OperandsToPause(options_.custom_pause_label)));
    if (state.driver_kept) {
      base::LogInfo("The loaded driver is the one that is wanted; it is kept");
      if (state.dra_driver) TRY(PauseAndAwait(DraPluginToPause()));
      return RemoveRemains(state);
    }
    TRY(UnloadNouveau(options_));
    const bool may_drain = options_.auto_drain && !state.upgrade_managed;
    const bool may_evict = options_.evict_gpu_pods && !state.upgrade_managed;
    // On a divided node their GPUs stay where they are.
    const auto machines = state.hands.machines ? WithMachines::kNo : WithMachines::kYes;
    if (may_evict || (state.dra_driver && may_drain)) TRY(FreeGpus(may_drain, machines));
    if (state.dra_driver) {
      TRY(RefuseClaimHolders(options_, *client_, stop_));
      TRY(PauseAndAwait(DraPluginToPause()));
    }
    base::Status unloaded = UnloadDriver(options_);
    if (!unloaded && may_drain) {
      base::LogWarning("The node is drained, to unload the driver then", unloaded.error());
      TRY(Cordon());
      TRY(DrainNode(options_, client_, stop_));
      unloaded = UnloadDriver(options_);
    }
    TRY(unloaded);
    TRY(RemoveRemains(state));
    TRY(Divide(state));
    return AwaitNetworkDriver(options_, stop_);
  }

  // Nothing is loaded: what an earlier driver container has left is taken away.
  base::Status PrepareUnloaded(const NodeState& state) {
    TRY(UnloadNouveau(options_));
    TRY(SendUsersOfFormerFilesAway(state));
    if (state.dra_driver) TRY(PauseAndAwait(DraPluginToPause()));
    TRY(RemoveRemains(state));
    TRY(Divide(state));
    return AwaitNetworkDriver(options_, stop_);
  }

  // After a restart of the node operands wait for this driver. Those that run have the files of the
  // one before, which showed no module, and would never look for others. Operands of virtual
  // machines use none of a driver's files.
  base::Status SendUsersOfFormerFilesAway(const NodeState& state) {
    if (state.passthrough || state.vgpus) return {};
    const PausedOperands operands = OperandsToPause(options_.custom_pause_label);
    TRY_ASSIGN(const bool run,
               workload::OperandsRun(*client_, options_.node_name, options_.namespace_name,
                                     operands.apps, stop_));
    return run ? PauseAndAwait(operands) : base::Status();
  }

  // Sends the pods away that use GPUs; where one of them may not go, or does not, and the node may
  // be drained, all of them that may.
  base::Status FreeGpus(bool may_drain, WithMachines machines) {
    TRY(Cordon());
    const base::Status evicted = EvictGpuPods(options_, client_, machines, stop_);
    if (evicted || !may_drain || !IsAboutPods(evicted.error())) return evicted;
    base::LogWarning("The node is drained, because its GPU pods alone could not be evicted",
                     evicted.error());
    return DrainNode(options_, client_, stop_);
  }

  base::Status PauseAndAwait(const PausedOperands& operands) {
    bool paused = false;
    TRY(node_.Change(
        [&](const codec::Json& node) {
          auto patch = workload::PausePatch(node, operands.labels, api::kPausedForDriverUpgrade);
          paused = paused || patch.has_value();
          return patch;
        },
        stop_));
    if (paused) base::LogInfo("The operands of this node are paused");
    return workload::AwaitOperandsGone(client_, options_.node_name, options_.namespace_name,
                                       operands.apps,
                                       std::chrono::steady_clock::now() + kOperandTimeout, stop_);
  }

  base::Status Cordon() {
    TRY(node_.Change(
        [](const codec::Json& node) {
          return workload::CordonPatch(node, desired::kCordonedByDriverManager);
        },
        stop_));
    return {};
  }

  // Labels back to what they were, and the node schedulable again if this program (this time or
  // before a crash) had cordoned it.
  base::Status Resume() {
    TRY(node_.Change(
        [&](const codec::Json& node) -> std::optional<codec::Json> {
          auto patch = workload::ResumePatch(node, LabelsToResume(options_.custom_pause_label),
                                             api::kPausedForDriverUpgrade);
          if (const auto uncordon =
                  workload::UncordonPatch(node, desired::kCordonedByDriverManager)) {
            if (!patch) return uncordon;
            // One write, with nulls that a merge would take for removals.
            (*patch)["metadata"]["annotations"] = uncordon->at("metadata").at("annotations");
            (*patch)["spec"] = uncordon->at("spec");
          }
          return patch;
        },
        io::StopToken()));
    return {};
  }

  // The VFIO manager's own pod runs this program too: there VFIO keeps what it has, above all what
  // virtual machines use.
  base::Status Divide(const NodeState& state) {
    if (state.passthrough) return {};
    TRY_ASSIGN(const auto not_given, DivideGpus(options_, state.hands, stop_));
    if (not_given) Tell("A GPU for virtual machines stays with the driver", *not_given);
    return {};
  }

  base::Status ForgetDigest() {
    const auto file = options_.run_folder / kDigestFile;
    std::error_code error;
    std::filesystem::remove(file, error);
    if (!error) return {};
    return base::Fail(base::FromErrno(error.value(), "remove " + file.string()));
  }

  // What a driver container leaves when it ends without its own clean-up. Whoever waits for the
  // next one must not take the old one's word.
  base::Status RemoveRemains(const NodeState& state) {
    TRY(host::DetachMounts(options_.run_folder / "driver"));
    // A driver that loads its modules and fails later would be taken for the one of this digest
    // (12.2, number 43).
    if (!state.driver_kept) TRY(ForgetDigest());
    const validations::StatusFolder status(options_.run_folder / "validations");
    TRY(status.Remove(validations::kDriverContainerReady));
    TRY(status.Remove(validations::kDriverDaemonsStatus));
    std::error_code error;
    std::filesystem::remove(options_.run_folder / "nvidia-driver.pid", error);
    if (error) {
      base::LogWarning("The PID file of the old driver container stays",
                       {{"reason", error.message()}});
    }
    return {};
  }

  const Options& options_;
  std::shared_ptr<kube::Client> client_;
  own_node::OwnNode node_;
  const io::StopToken& stop_;
  bool preinstalled_ = false;  // the host has a driver of its own, and the operator was told so
};

// How the node's GPUs are to be used, as the label of the pod tells that this program prepares for.
desired::Workload PreparedFor(const codec::Json& node) {
  if (own_node::LabelOf(node, api::kDeployVfioManager) == "true") {
    return desired::Workload::kPassthrough;
  }
  return own_node::LabelOf(node, api::kDeployVgpuManager) == "true" ? desired::Workload::kVgpu
                                                                    : desired::Workload::kContainer;
}

}  // namespace

base::Result<NodeState> ObserveNode(const Options& options, const codec::Json& node) {
  NodeState state;
  state.upgrade_managed = own_node::AnnotationOf(node, api::kUpgradeEnabledAnnotation) == "true";
  const auto workload = PreparedFor(node);
  state.passthrough = workload == desired::Workload::kPassthrough;
  state.vgpus = workload == desired::Workload::kVgpu;
  if (const auto validated = base::ReadFile(options.run_folder / "validations" /
                                            std::string(validations::kWorkloadType))) {
    const auto before = base::Trim(*validated);
    state.validated_for_another_use = !before.empty() && before != ToString(workload);
  } else if (validated.error().code != base::Code::kNotFound) {
    return base::Fail(validated.error());
  }
  state.dra_driver = !own_node::LabelOf(node, api::kDeployDraDriver).empty();
  TRY_ASSIGN(state.hands, ObserveHands(options, node, workload));
  const auto module = host::ReadModuleReferences("nvidia", options.sys);
  if (module.is_unknown()) return base::Fail(*module.error());
  state.driver_loaded = module.is_present();
  if (!state.driver_loaded || options.force_reinstall || options.config_digest.empty())
    return state;
  const auto stored = base::ReadFile(options.run_folder / kDigestFile);
  // Of which configuration a driver is that cannot be asked is not known: nobody is sent away for
  // it.
  if (!stored && stored.error().code != base::Code::kNotFound) return base::Fail(stored.error());
  // A driver learns of GPUs that come and go when it is loaded.
  const bool same_gpus = !state.hands.leave_vfio && !state.hands.go_to_vfio;
  state.driver_kept = same_gpus && stored && base::Trim(*stored) == options.config_digest;
  return state;
}

base::Status UninstallDriver(const Options& options, const std::shared_ptr<kube::Client>& client,
                             const io::StopToken& stop) {
  return Manager(options, client, stop).Run();
}

}  // namespace pitcrew::node::driver_manager

#include "node/mig_manager/change.h"

#include <fmt/format.h>

#include <utility>

#include "api/labels.h"
#include "api/mig_progress.h"
#include "api/validator_names.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/process.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/mig/change.h"
#include "node/mig/plan.h"
#include "node/mig_manager/cdi.h"
#include "node/mig_manager/decision.h"
#include "node/mig_manager/gpu_clients.h"
#include "node/mig_manager/gpu_pods.h"
#include "node/mig_manager/host_services.h"
#include "node/operand_pause/operand_pause.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/superseded.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "workload/pause.h"

namespace pitcrew::node::mig_manager {
namespace {

using codec::Json;
using validations::StatusFolder;

constexpr std::chrono::minutes kRebootTimeout{1};

std::string Now() { return base::FormatRfc3339(base::WallClock::now()); }

// An empty state is no label.
operand_pause::Told Told(std::string_view state, std::optional<std::string> progress) {
  return {.labels = {{api::kMigConfigState,
                      state.empty() ? std::nullopt : std::optional(std::string(state))}},
          .annotations = {{api::kMigConfigProgress, std::move(progress)}}};
}

operand_pause::OperandPause AllOperands(const Context& context) {
  return {context.node,
          {.namespace_name = context.options.clients_namespace,
           .labels = AllLabels(),
           .word = api::kPausedForMigChange}};
}

// Closed again at once: an open NVML can keep a MIG mode from changing.
base::Result<gpu::Inventory> ReadInventory(const Options& options) {
  TRY_ASSIGN(const auto library, nvml::Library::Open({options.driver_root_container}));
  return library->ReadInventory();
}

base::Status TellToolkit(const Context& context) {
  context.gpus.Close();
  TRY_ASSIGN(const auto inventory, ReadInventory(context.options));
  TRY(MakeCapabilityNodes(context.options, inventory));
  return context.options.cdi_enabled ? WriteManagementSpec(context.options, inventory)
                                     : base::Status();
}

// What a change that was cut off has left goes back to what was before. Operands may run meanwhile:
// they are told, too.
base::Status TakeBack(const Context& context) {
  TRY(mig::Recover(context.gpus, {.journal = context.options.journal()}));
  for (const auto& told :
       {TellToolkit(context),
        validations::AnnounceMigChange(StatusFolder(context.options.validations), {})}) {
    if (told) continue;
    base::LogWarning("The geometry before is back; not everybody on this node knows", told.error());
  }
  return {};
}

class Change {
 public:
  Change(const Context& context, std::string wanted)
      : context_(context),
        options_(context.options),
        wanted_(std::move(wanted)),
        folder_(context.options.validations) {
    progress_.config = wanted_;
  }

  End Run() {
    const auto planned = Plan();
    if (!planned) return Finish(End::Kind::kFailed, TakeBackAfter(planned.error()));
    switch (Decide(*planned, state_before_)) {
      case Action::kNothing:
        return FinishWhatWasCutOff();
      case Action::kRebootInVain:
        return Finish(End::Kind::kFailed,
                      base::Error{base::Code::kInternal, "RebootInVain",
                                  "MIG mode change did not take effect after rebooting"});
      case Action::kChange:
        break;
    }
    return Perform(*planned);
  }

 private:
  base::Result<mig::Plan> Plan() {
    TRY_ASSIGN(const auto node, context_.node.Read(context_.stop));
    state_before_ = own_node::LabelOf(node, api::kMigConfigState);
    TRY_ASSIGN(configuration_, context_.configs.Load(context_.stop));
    TRY_ASSIGN(const auto* config, mig::SelectConfig(configuration_, wanted_));
    config_ = config;
    TRY_ASSIGN(const auto gpus, context_.gpus.Read(context_.stop.fd()));
    TRY_ASSIGN(auto plan, mig::PlanConfig(gpus, *config_));
    for (const auto& remark : plan.remarks) base::LogInfo(remark);
    return plan;
  }

  // A manager that died has left the GPUs half divided, and where to is not known any more. Where
  // they stay so, it is tried again, also after an error that is a person's to mend.
  base::Error TakeBackAfter(const base::Error& error) {
    if (mig::WasCutOff(options_.journal()) == false) return error;
    const auto recovered = TakeBack(context_);
    return recovered ? error : own_node::WithFailedRecovery(error, recovered.error());
  }

  // A manager that died may have made all of it, but for saying so.
  End FinishWhatWasCutOff() {
    const auto announced = validations::ReadMigChange(folder_);
    const auto cut_off = mig::WasCutOff(options_.journal());
    if (cut_off == false && announced && announced->empty()) return Finish(End::Kind::kSuccess);
    auto done = Apply({});
    if (!done) return Finish(End::Kind::kFailed, done.error());
    const auto told = TellToolkit(context_);
    return told ? Finish(End::Kind::kSuccess) : Finish(End::Kind::kFailed, told.error());
  }

  End Perform(const mig::Plan& plan) {
    for (const auto& change : plan.changes) progress_.gpus[change.position] = "waiting";
    base::Status done;
    {
      own_node::SupersededStop preparing(context_.labels,
                                         {.label = std::string(api::kMigConfig), .value = wanted_},
                                         context_.stop);
      done = Prepare(plan, preparing.token());
      superseded_ = preparing.superseded();
    }
    if (!done && (superseded_ || context_.stop.stopped())) return Abandon();
    if (done) done = ChangeGpus(plan);
    if (rebooting_) return RestartNode();
    return done ? Finish(End::Kind::kSuccess) : Finish(End::Kind::kFailed, done.error());
  }

  // Until nobody uses the GPUs. Nothing on the GPUs has changed when this fails.
  base::Status Prepare(const mig::Plan& plan, const io::StopToken& stop) {
    TRY(TellHostService(options_, wanted_));
    TRY_ASSIGN(const auto services, ReadHostServices(options_.gpu_clients_file));
    Enter("pausing", "");
    TRY(context_.node.Patch(StatePatch(kPending), stop));
    std::vector<std::string> titles;
    for (const auto& change : plan.changes) titles.push_back(change.title);
    context_.node.Record(kube::EventType::kNormal, "MigChangeStarted",
                         fmt::format("MIG configuration {}: {} to be divided anew", wanted_,
                                     base::Join(titles, ", ")));
    validations::GpuUuids changing;
    for (const auto& change : plan.changes) {
      if (!change.uuid.empty()) changing.insert(change.uuid);
    }
    TRY(validations::AnnounceMigChange(folder_, changing));
    TRY(PauseClients(plan.ChangesModes(), stop));
    TRY(DeletePods(api::kCudaValidator, stop));
    TRY(DeletePods(api::kDevicePluginValidator, stop));
    if (options_.pods != PodPolicy::kIgnore) TRY(AwaitPods(changing, stop));
    return StopHostServices(options_, services, plan.ChangesModes(), stop);
  }

  base::Status PauseClients(bool changes_modes, const io::StopToken& stop) {
    std::set<std::string, std::less<>> following;
    for (const auto& client : GpuClients()) {
      if (client.app.empty()) continue;
      TRY_ASSIGN(const bool follows, validations::IsMigFollowed(folder_, client.app));
      if (follows) following.emplace(client.app);
    }
    Pause pause;
    TRY(context_.node.Change(
        [&](const Json& node) {
          pause = PlanPause(node, following, changes_modes);
          return workload::PausePatch(node, pause.labels, api::kPausedForMigChange);
        },
        stop));
    if (pause.labels.empty()) return {};
    // One deadline for all of them; upstream's add up to 25 minutes.
    const auto deadline = base::SteadyClock::now() + options_.operand_timeout;
    TRY(workload::AwaitOperandsGone(context_.node.client(), options_.node_name,
                                    options_.clients_namespace, pause.apps, deadline, stop));
    return pause.third_parties ? AwaitThirdParties(deadline, stop) : base::Status();
  }

  base::Status AwaitThirdParties(base::Deadline deadline, const io::StopToken& stop) {
    kube::InformerOptions selection;
    selection.field_selector = "spec.nodeName=" + options_.node_name;
    std::vector<std::string> remaining;
    const auto gone = kube::Await<bool>(
        context_.node.client(), kube::kPods,
        kube::ProjectJson<bool>(
            [](const Json& pod) -> base::Result<bool> { return IsThirdPartyClient(pod); }),
        selection,
        [&](const kube::Store<bool>& store) -> base::Result<bool> {
          remaining.clear();
          for (const auto& [key, is_client] : store.Snapshot()) {
            if (*is_client) remaining.push_back(key.ToString());
          }
          return remaining.empty();
        },
        stop, deadline);
    if (gone || gone.error().code != base::Code::kTimeout || remaining.empty()) return gone;
    return base::Fail(base::Error{
        base::Code::kTimeout, "OperandsStillRunning",
        fmt::format("paused clients did not end in time: {}", base::Join(remaining, ", "))});
  }

  base::Status DeletePods(std::string_view app, const io::StopToken& stop) {
    kube::ListOptions selection;
    selection.label_selector = fmt::format("app={}", app);
    selection.field_selector = "spec.nodeName=" + options_.node_name;
    auto& client = *context_.node.client();
    TRY_ASSIGN(const auto pods,
               client.List(kube::kPods, options_.clients_namespace, selection, stop));
    for (const auto& pod : pods.items) {
      const auto deleted = client.Delete(kube::kPods, kube::KeyOf(pod), {}, stop);
      if (!deleted && deleted.error().code != base::Code::kNotFound) return deleted;
    }
    return {};
  }

  base::Status AwaitPods(const Uuids& changing, const io::StopToken& stop) {
    PodWait wait;
    wait.changing = changing;
    TRY_ASSIGN(wait.gpu_of_device, ReadDevices());
    std::string until;
    if (options_.pods_deadline.count() > 0) {
      wait.deadline = base::Deadline::After(options_.pods_deadline);
      until = base::FormatRfc3339(
          base::WallClock::now() +
          std::chrono::duration_cast<base::WallClock::duration>(options_.pods_deadline));
    }
    wait.waits_for = [&](const std::vector<std::string>& pods, bool draining) {
      const auto message = fmt::format(
          "MIG configuration {} {}: {}", wanted_,
          draining ? "drains pods that use its GPUs" : "waits for pods that use its GPUs",
          base::Join(pods, ", "));
      progress_.waiting_for = pods;
      Enter("waiting", message, until);
      context_.node.Record(kube::EventType::kNormal,
                           draining ? "MigChangeDrains" : "MigChangeWaits",
                           until.empty() ? message : fmt::format("{} (until {})", message, until));
    };
    wait.unknown = [&](const base::Error& why) {
      progress_.waiting_for.clear();
      Enter("waiting",
            fmt::format("MIG configuration {} waits until it is known which pods use its GPUs: {}",
                        wanted_, why.message),
            until);
    };
    TRY(AwaitGpusFree(options_, context_.node.client(), wait, stop));
    progress_.waiting_for.clear();
    return {};
  }

  base::Result<GpuOfDevice> ReadDevices() const {
    TRY_ASSIGN(const auto inventory, ReadInventory(options_));
    GpuOfDevice devices;
    for (const auto& device : inventory.devices) {
      devices[device.uuid] = device.uuid;
      for (const auto& mig : device.mig_devices) devices[mig.uuid] = device.uuid;
    }
    return devices;
  }

  // Not to be interrupted: it ends with the new geometry, or the one before.
  base::Status ChangeGpus(const mig::Plan& plan) {
    Enter("changing", "");
    auto changed = Apply({});
    if (!changed && options_.with_reboot && plan.ChangesModes()) {
      base::LogWarning("The MIG mode needs a restart of the node", changed.error());
      const auto modes = Apply({.mode_only = true, .skip_reset = true});
      rebooting_ = modes && modes->needs_reset;
      if (rebooting_) return base::Fail(changed.error());
      if (modes) changed = Apply({});
    }
    // Also after a way back: instances that were made again have device nodes, too.
    const auto told = TellToolkit(context_);
    if (!changed) return base::Fail(changed.error());
    return told;
  }

  base::Result<mig::Outcome> Apply(mig::ChangeOptions change) {
    change.journal = options_.journal();
    change.progress = [this](const mig::Progress& step) {
      progress_.gpus[step.position] = std::string(mig::ToString(step.step));
      context_.progress.Write(api::ToText(progress_));
    };
    const bool mode_only = change.mode_only;
    return mig::Apply(
        context_.gpus,
        [&](const std::vector<mig::Gpu>& gpus) {
          return mig::PlanConfig(gpus, *config_, mode_only);
        },
        change);
  }

  // Operands stay paused and services stopped, as upstream leaves them: they would take the GPUs
  // before the mode counts.
  End RestartNode() {
    Enter("rebooting", "a MIG mode counts after a restart of the node");
    context_.progress.Settle();
    // With the state: the writer of the progress ends with this process.
    auto patch = StatePatch(kRebooting);
    patch["metadata"]["annotations"][std::string(api::kMigConfigProgress)] = api::ToText(progress_);
    const auto told = context_.node.Patch(patch, {});
    if (!told) return Finish(End::Kind::kFailed, told.error());
    context_.node.Record(kube::EventType::kWarning, "MigRebooting",
                         fmt::format("MIG configuration {}: the node restarts", wanted_));
    context_.node.FlushEvents();
    const host::Root root(options_.host_root);
    host::ProgramRun run;
    run.root = root.path();
    run.deadline = base::SteadyClock::now() + kRebootTimeout;
    base::Result<host::ProgramEnd> ended = base::Fail(base::Error{});
    const auto program = host::FindStandardProgram(root, "reboot");
    if (program) {
      run.program = program->string();
      ended = host::RunProgram(run);
    }
    if (!program || !ended || ended->exit_status != 0) {
      base::LogError(
          "The node could not be restarted: restart it by hand",
          !program ? program.error()
          : !ended ? ended.error()
                   : base::Internal("RebootFailed", fmt::format("reboot ended with exit status {}",
                                                                ended->exit_status)));
    }
    return {End::Kind::kRebooting, std::nullopt};
  }

  // Somebody wants something else: the node goes on as it was. The state is the next one's to tell,
  // or that of before.
  End Abandon() {
    if (const auto started = StartHostServices(options_); !started) {
      base::LogError("Services of the host do not run again", started.error());
    }
    TellFollowers();
    context_.progress.Settle();
    // Told to stop, the clean-up still has to reach the API server.
    const auto resumed = AllOperands(context_).Resume(
        superseded_ ? Told(state_before_, std::nullopt) : operand_pause::Told(), {});
    if (!resumed) base::LogError("The operands could not be resumed", resumed.error());
    base::LogInfo("The change of the MIG geometry is given up",
                  {{"config", wanted_}, {"another_one_is_wanted", superseded_}});
    return {End::Kind::kAbandoned, std::nullopt};
  }

  End Finish(End::Kind kind, std::optional<base::Error> error = std::nullopt) {
    if (kind == End::Kind::kFailed && context_.stop.stopped() &&
        error->code == base::Code::kCancelled) {
      return Abandon();
    }
    // Before the operands, which may need them; also those that a manager which died had stopped.
    if (const auto started = StartHostServices(options_); !started) {
      base::LogError("Services of the host do not run again", started.error());
      if (kind == End::Kind::kSuccess) {
        kind = End::Kind::kFailed;
        error = started.error();
      }
    }
    const bool success = kind == End::Kind::kSuccess;
    const bool began = !progress_.gpus.empty();
    for (auto& [position, step] : progress_.gpus) {
      if (step == "waiting") step = "unchanged";
    }
    TellFollowers();
    if (began) {
      // The node is validated anew.
      if (const auto deleted = DeletePods(api::kOperatorValidator, {}); !deleted && success) {
        base::LogWarning("The node is not validated again", deleted.error());
      }
    }
    Enter(success ? "done" : "failed", error ? error->message : "");
    context_.progress.Settle();
    const auto told = AllOperands(context_).Resume(
        Told(success ? kSuccess : kFailed, api::ToText(progress_)), {});
    if (!told) base::LogError("The node does not say how the change ended", told.error());
    Tell(success, began, error);
    if (!told) return {End::Kind::kFailed, told.error()};
    return {kind, std::move(error)};
  }

  void Tell(bool success, bool began, const std::optional<base::Error>& error) {
    if (success) {
      base::LogInfo("The GPUs are divided as the label says", {{"config", wanted_}});
      if (!began) return;
      context_.node.Record(kube::EventType::kNormal, "MigChanged",
                           fmt::format("MIG configuration {} is in force", wanted_));
      return;
    }
    base::LogError("The GPUs are not divided as the label says", *error, {{"config", wanted_}});
    context_.node.Record(kube::EventType::kWarning, "MigChangeFailed",
                         fmt::format("MIG configuration {}: {}", wanted_, error->message));
  }

  void TellFollowers() {
    // Where nothing was begun, only a manager that died can have left an announcement.
    if (progress_.gpus.empty()) {
      const auto announced = validations::ReadMigChange(folder_);
      if (announced && announced->empty()) return;
    }
    if (const auto told = validations::AnnounceMigChange(folder_, {}); !told) {
      base::LogWarning("The components of this node are not told of the geometry", told.error());
    }
  }

  void Enter(std::string phase, std::string message, std::string deadline = "") {
    progress_.phase = std::move(phase);
    progress_.since = Now();
    progress_.message = std::move(message);
    progress_.deadline = std::move(deadline);
    if (!progress_.gpus.empty()) context_.progress.Write(api::ToText(progress_));
  }

  static Json StatePatch(std::string_view state) {
    return own_node::LabelPatch(api::kMigConfigState, std::string(state));
  }

  const Context& context_;
  const Options& options_;
  const std::string wanted_;
  const StatusFolder folder_;
  std::string state_before_;
  mig::Configuration configuration_;
  const mig::NamedConfig* config_ = nullptr;  // in configuration_
  api::MigProgress progress_;
  bool superseded_ = false;
  bool rebooting_ = false;
};

}  // namespace

End ApplyLabel(const Context& context, const std::string& wanted) {
  base::LogInfo("The GPUs are to be divided", {{"config", wanted}});
  return Change(context, wanted).Run();
}

base::Status TidyUp(const Context& context) {
  TRY_ASSIGN(const bool cut_off, mig::WasCutOff(context.options.journal()));
  if (cut_off) TRY(TakeBack(context));
  TRY(StartHostServices(context.options));
  const StatusFolder folder(context.options.validations);
  TRY_ASSIGN(const auto changing, validations::ReadMigChange(folder));
  if (!changing.empty()) TRY(validations::AnnounceMigChange(folder, {}));
  return AllOperands(context).Resume({}, context.stop);
}

}  // namespace pitcrew::node::mig_manager

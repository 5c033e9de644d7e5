#include "node/vgpu_device_manager/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/labels.h"
#include "api/vgpu_config.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/operand_table.h"
#include "node/operand_pause/operand_pause.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/superseded.h"
#include "node/vgpu/change.h"
#include "node/vgpu/configuration.h"

namespace pitcrew::node::vgpu_device_manager {
namespace {

// Values of the label nvidia.com/vgpu.config.state.
constexpr std::string_view kPending = "pending";
constexpr std::string_view kSuccess = "success";
constexpr std::string_view kFailed = "failed";

// An empty state is no label.
operand_pause::Told Told(std::string_view state, std::optional<std::string> progress) {
  return {.labels = {{api::kVgpuConfigState,
                      state.empty() ? std::nullopt : std::optional(std::string(state))}},
          .annotations = {{api::kVgpuConfigProgress, std::move(progress)}}};
}

class Change {
 public:
  Change(const Context& context, std::string wanted)
      : context_(context),
        options_(context.options),
        wanted_(std::move(wanted)),
        operands_(context.node,
                  {.namespace_name = options_.namespace_name,
                   .labels = desired::Operands().LabelsLeavingFor(desired::NodeChange::kVgpu),
                   .word = api::kPausedForVgpuChange}) {
    progress_.config = wanted_;
  }

  End Run() {
    const auto plan = Plan();
    if (!plan) return Finish(End::Kind::kFailed, TakeBackAfter(plan.error()));
    if (!plan->empty()) return Perform(*plan);
    // A manager that died may have made all of it, but for saying so.
    if (vgpu::WasCutOff(options_.journal()) != false) {
      if (const auto done = Apply(); !done) return Finish(End::Kind::kFailed, done.error());
    }
    return Finish(End::Kind::kSuccess);
  }

 private:
  base::Result<vgpu::Plan> Plan() {
    TRY_ASSIGN(const auto node, context_.node.Read(context_.stop));
    state_before_ = own_node::LabelOf(node, api::kVgpuConfigState);
    // Read anew each time: a ConfigMap may have changed.
    const auto configuration = vgpu::LoadConfiguration(options_.config_file);
    if (!configuration) {
      return base::Fail(
          configuration.error().Within("unable to validate the selected vGPU configuration"));
    }
    TRY_ASSIGN(const auto* config, vgpu::SelectConfig(*configuration, wanted_));
    config_ = *config;
    TRY_ASSIGN(auto plan, vgpu::PlanNode(context_.vgpus, &context_.mig, config_));
    for (const auto& remark : plan.remarks) base::LogInfo(remark);
    return plan;
  }

  // A manager that died has left vGPUs half made, and where to is not known any more. Where they
  // stay so, it is tried again, also after an error that is a person's to mend.
  base::Error TakeBackAfter(const base::Error& error) {
    if (vgpu::WasCutOff(options_.journal()) == false) return error;
    const auto recovered = vgpu::Recover(context_.vgpus, &context_.mig, ChangeOptions());
    return recovered ? error : own_node::WithFailedRecovery(error, recovered.error());
  }

  End Perform(const vgpu::Plan& plan) {
    for (const auto& change : plan.changes) progress_.gpus[change.position] = "waiting";
    for (const auto& change : plan.mig.changes) progress_.gpus[change.position] = "waiting";
    base::Status done;
    {
      own_node::SupersededStop preparing(context_.labels,
                                         {.label = std::string(api::kVgpuConfig),
                                          .value = wanted_,
                                          .fallback = options_.default_config},
                                         context_.stop);
      done = Prepare(plan, preparing.token());
      superseded_ = preparing.superseded();
    }
    if (!done && (superseded_ || context_.stop.stopped())) return Abandon();
    if (done) {
      Enter("changing", "");
      if (const auto applied = Apply(); !applied) done = base::Fail(applied.error());
    }
    return done ? Finish(End::Kind::kSuccess) : Finish(End::Kind::kFailed, done.error());
  }

  // Until the operands that use vGPUs have left. No vGPU has changed when this fails.
  base::Status Prepare(const vgpu::Plan& plan, const io::StopToken& stop) {
    Enter("pausing", "");
    TRY(context_.node.Patch(own_node::LabelPatch(api::kVgpuConfigState, std::string(kPending)),
                            stop));
    std::vector<std::string> titles;
    for (const auto& change : plan.changes) titles.push_back(change.title);
    context_.node.Record(
        kube::EventType::kNormal, "VgpuChangeStarted",
        fmt::format("vGPU configuration {}: {} to be changed", wanted_, base::Join(titles, ", ")));
    return operands_.PauseAll(options_.operand_timeout, stop);
  }

  [[nodiscard]] vgpu::ChangeOptions ChangeOptions() {
    vgpu::ChangeOptions change;
    change.journal = options_.journal();
    change.mig_journal = options_.mig_journal();
    change.progress = [this](const vgpu::Progress& step) {
      progress_.gpus[step.position] = std::string(vgpu::ToString(step.step));
      context_.progress.Write(api::ToText(progress_));
    };
    return change;
  }

  // Not to be interrupted: it ends with the new vGPUs, or those before.
  base::Result<vgpu::Plan> Apply() {
    auto applied = vgpu::Apply(context_.vgpus, &context_.mig, config_, ChangeOptions());
    if (applied) return applied;
    return base::Fail(applied.error().Within(fmt::format("unable to apply config '{}'", wanted_)));
  }

  // Somebody wants something else: the node goes on as it was. The state is the next one's to tell,
  // or that of before.
  End Abandon() {
    context_.progress.Settle();
    // Told to stop, the clean-up still has to reach the API server.
    const auto resumed = operands_.Resume(
        superseded_ ? Told(state_before_, std::nullopt) : operand_pause::Told(), {});
    if (!resumed) base::LogError("The operands could not be resumed", resumed.error());
    base::LogInfo("The change of the vGPUs is given up",
                  {{"config", wanted_}, {"another_one_is_wanted", superseded_}});
    return {End::Kind::kAbandoned, std::nullopt};
  }

  End Finish(End::Kind kind, std::optional<base::Error> error = std::nullopt) {
    if (kind == End::Kind::kFailed && context_.stop.stopped() &&
        error->code == base::Code::kCancelled) {
      return Abandon();
    }
    const bool success = kind == End::Kind::kSuccess;
    const bool began = !progress_.gpus.empty();
    for (auto& [position, step] : progress_.gpus) {
      if (step == "waiting") step = "unchanged";
    }
    Enter(success ? "done" : "failed", error ? error->message : "");
    context_.progress.Settle();
    const auto told =
        operands_.Resume(Told(success ? kSuccess : kFailed, api::ToText(progress_)), {});
    if (!told) base::LogError("The node does not say how the change ended", told.error());
    Tell(success, began, error);
    if (!told) return {End::Kind::kFailed, told.error()};
    return {kind, std::move(error)};
  }

  void Tell(bool success, bool began, const std::optional<base::Error>& error) {
    if (!success) {
      base::LogError("The vGPUs are not as wanted", *error, {{"config", wanted_}});
      context_.node.Record(kube::EventType::kWarning, "VgpuChangeFailed",
                           fmt::format("vGPU configuration {}: {}", wanted_, error->message));
      return;
    }
    base::LogInfo("The vGPUs are as wanted", {{"config", wanted_}});
    if (!began) return;
    context_.node.Record(kube::EventType::kNormal, "VgpusChanged",
                         fmt::format("vGPU configuration {} is in force", wanted_));
  }

  void Enter(std::string phase, std::string message) {
    progress_.phase = std::move(phase);
    progress_.since = base::FormatRfc3339(base::WallClock::now());
    progress_.message = std::move(message);
    if (!progress_.gpus.empty()) context_.progress.Write(api::ToText(progress_));
  }

  const Context& context_;
  const Options& options_;
  const std::string wanted_;
  operand_pause::OperandPause operands_;
  std::string state_before_;
  vgpu::NamedConfig config_;
  api::VgpuProgress progress_;
  bool superseded_ = false;
};

}  // namespace

End ApplyConfig(const Context& context, const std::string& wanted) {
  base::LogInfo("The vGPUs are to be those of a configuration", {{"config", wanted}});
  return Change(context, wanted).Run();
}

}  // namespace pitcrew::node::vgpu_device_manager

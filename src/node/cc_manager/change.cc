#include "node/cc_manager/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/cc_mode.h"
#include "api/labels.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/operand_table.h"
#include "node/cc_mode/change.h"
#include "node/operand_pause/operand_pause.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/superseded.h"

namespace pitcrew::node::cc_manager {
namespace {

using own_node::Followed;

constexpr std::string_view kFailed = "failed";

// What Kata's runtime classes look for (validator.md section 12.2).
std::string_view ReadyState(std::string_view state) {
  if (state == "on" || state == "ppcie") return "true";
  return state == "off" ? "false" : "";
}

std::string TitlesOf(const std::vector<cc_mode::DeviceMode>& devices) {
  std::vector<std::string> titles;
  for (const auto& device : devices) {
    titles.push_back(
        fmt::format("{} ({})", device.address.SysfsName(), cc_mode::ToString(device.mode)));
  }
  return base::Join(titles, ", ");
}

class Change {
 public:
  Change(const Context& context, std::string wanted)
      : context_(context),
        options_(context.options),
        settings_{.root = host::Root(options_.root),
                  .processes = host::Root(options_.host_root),
                  .journal = options_.journal(),
                  .patience = options_.firmware_patience},
        wanted_(std::move(wanted)),
        operands_(context.node,
                  {.namespace_name = options_.namespace_name,
                   .labels = desired::Operands().LabelsLeavingFor(desired::NodeChange::kCc),
                   .word = api::kPausedForCcChange}) {
    progress_.config = wanted_;
  }

  Followed Run() {
    const auto plan = Plan();
    if (!plan) return Finish(base::Fail(TakeBackAfter(plan.error())));
    if (plan->changes.empty()) return Finish({});
    positions_ = plan->devices;
    for (const auto& device : plan->changes) progress_.gpus[PositionOf(device)] = "waiting";
    base::Status done;
    {
      own_node::SupersededStop preparing(
          context_.labels,
          {.label = std::string(api::kCcMode), .value = wanted_, .fallback = context_.fallback},
          context_.stop);
      done = Prepare(*plan, preparing.token());
      superseded_ = preparing.superseded();
    }
    if (!done && (superseded_ || context_.stop.stopped())) return Abandon();
    if (done) {
      Enter("changing", "");
      const auto applied =
          cc_mode::Apply(settings_, mode_, [this](const auto& device, cc_mode::Step step) {
            progress_.gpus[PositionOf(device)] = std::string(cc_mode::ToString(step));
            context_.progress.Write(api::ToText(progress_));
          });
      if (!applied) done = base::Fail(applied.error());
    }
    return Finish(done);
  }

 private:
  [[nodiscard]] int PositionOf(const cc_mode::DeviceMode& device) const {
    const auto found = std::ranges::find(positions_, device.address, &cc_mode::DeviceMode::address);
    return static_cast<int>(found - positions_.begin());
  }

  base::Result<cc_mode::Plan> Plan() {
    TRY_ASSIGN(mode_, cc_mode::ParseMode(wanted_));
    if (mode_ != cc_mode::Mode::kOff && !cc_mode::IsHostCapable(settings_.root)) {
      const std::string warning =
          "this host has neither Intel TDX nor AMD SEV-SNP: its GPUs get the mode that the label "
          "asks for, but no confidential virtual machine can use them";
      base::LogWarning(warning, {{"mode", wanted_}});
      context_.node.Record(kube::EventType::kWarning, "HostNotConfidential", warning);
    }
    auto settings = settings_;
    settings.stop_fd = context_.stop.fd();
    TRY_ASSIGN(auto plan, cc_mode::PlanNode(settings, mode_));
    for (const auto& address : plan.incapable) {
      base::LogInfo("A GPU has no mode of confidential computing", {{"gpu", address}});
    }
    TRY(cc_mode::RequireNoMachines(settings_, plan.changes));
    return plan;
  }

  // A manager that died has left devices half told, and where to is not known any more. Where they
  // stay so, it is tried again, also after an error that is a person's to mend.
  base::Error TakeBackAfter(const base::Error& error) {
    if (cc_mode::WasCutOff(settings_) == false) return error;
    const auto recovered = cc_mode::Recover(settings_);
    return recovered ? error : own_node::WithFailedRecovery(error, recovered.error());
  }

  // Until the operands that use the GPUs have left. No device has changed when this fails.
  base::Status Prepare(const cc_mode::Plan& plan, const io::StopToken& stop) {
    TRY(ForgetReady(options_));
    Enter("pausing", "");
    context_.node.Record(
        kube::EventType::kNormal, "CcModeChangeStarted",
        fmt::format("mode {} of confidential computing: {} to be changed and reset", wanted_,
                    TitlesOf(plan.changes)));
    if (!options_.pause_operands) return {};
    return operands_.PauseAll(options_.operand_timeout, stop);
  }

  // Somebody wants something else: the node goes on as it was, and the state is the next one's to
  // tell.
  Followed Abandon() {
    context_.progress.Settle();
    // Told to stop, the clean-up still has to reach the API server.
    const auto resumed = operands_.Resume({}, {});
    if (!resumed) base::LogError("The operands could not be resumed", resumed.error());
    base::LogInfo("The change of the mode is given up",
                  {{"mode", wanted_}, {"another_one_is_wanted", superseded_}});
    return Followed::kAbandoned;
  }

  Followed Finish(const base::Status& done) {
    if (!done && context_.stop.stopped() && done.error().code == base::Code::kCancelled) {
      return Abandon();
    }
    const bool began = !progress_.gpus.empty();
    for (auto& [position, step] : progress_.gpus) {
      if (step == "waiting") step = "unchanged";
    }
    Enter(done ? "done" : "failed", done ? "" : done.error().message);
    context_.progress.Settle();
    const std::string_view state = done ? std::string_view(wanted_) : kFailed;
    // Operands that are resumed next, the validator first, look for the file.
    base::Status told =
        done ? base::WriteFileAtomically(options_.ready_file, "") : ForgetReady(options_);
    if (told) {
      told = operands_.Resume({.labels = {{api::kCcModeState, std::string(state)},
                                          {api::kCcReadyState, std::string(ReadyState(state))}},
                               .annotations = {{api::kCcModeProgress, api::ToText(progress_)}}},
                              {});
    }
    if (!told) base::LogError("The node does not say how the change ended", told.error());
    Tell(done, began);
    // Operands may still be paused: also a change that failed for good is tried again then.
    if (!told) return Followed::kMayPass;
    return done ? Followed::kDone : own_node::AfterFailure(done.error());
  }

  void Tell(const base::Status& done, bool began) {
    if (!done) {
      base::LogError("The mode of confidential computing is not as wanted", done.error(),
                     {{"mode", wanted_}});
      context_.node.Record(
          kube::EventType::kWarning, "CcModeChangeFailed",
          fmt::format("mode {} of confidential computing: {}", wanted_, done.error().message));
      return;
    }
    base::LogInfo("The mode of confidential computing is as wanted", {{"mode", wanted_}});
    if (!began) return;
    context_.node.Record(kube::EventType::kNormal, "CcModeChanged",
                         fmt::format("mode {} of confidential computing is in force", wanted_));
  }

  void Enter(std::string phase, std::string message) {
    progress_.phase = std::move(phase);
    progress_.since = base::FormatRfc3339(base::WallClock::now());
    progress_.message = std::move(message);
    if (!progress_.gpus.empty()) context_.progress.Write(api::ToText(progress_));
  }

  const Context& context_;
  const Options& options_;
  const cc_mode::Settings settings_;
  const std::string wanted_;
  operand_pause::OperandPause operands_;
  cc_mode::Mode mode_ = cc_mode::Mode::kOff;
  std::vector<cc_mode::DeviceMode> positions_;  // the node's devices, by address
  api::CcProgress progress_;
  bool superseded_ = false;
};

}  // namespace

base::Status ForgetReady(const Options& options) {
  std::error_code error;
  std::filesystem::remove(options.ready_file, error);
  if (!error) return {};
  return base::Fail(base::FromErrno(error.value(), "remove " + options.ready_file.string()));
}

Followed ApplyMode(const Context& context, const std::string& wanted) {
  base::LogInfo("The GPUs are to be in a mode of confidential computing", {{"mode", wanted}});
  return Change(context, wanted).Run();
}

}  // namespace pitcrew::node::cc_manager

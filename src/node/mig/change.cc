#include "node/mig/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/journal_file.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/mig/journal.h"

namespace pitcrew::node::mig {
namespace {

using Gpus = std::vector<Gpu>;

base::JournalFile FileOf(const std::filesystem::path& journal) { return {journal, "MIG geometry"}; }

base::Result<const Gpu*> Find(const Gpus& gpus, const GpuChange& change) {
  const auto found = std::ranges::find(gpus, change.pci, &Gpu::pci);
  if (found != gpus.end()) return &*found;
  return base::Fail(base::Unavailable("GpuMissing", change.title + " has vanished meanwhile"));
}

// To what a journal says, whatever the GPUs are now.
base::Result<Plan> PlanJournal(const Gpus& gpus, const Journal& journal) {
  Plan plan;
  for (const auto& entry : journal) {
    const auto gpu =
        std::ranges::find_if(gpus, [&](const Gpu& one) { return entry.IsOf(one.pci, one.uuid); });
    // A board that is gone, or another one in its place: nothing to bring back.
    if (gpu == gpus.end() || gpu->CannotDoMig()) continue;
    if (gpu->mode.is_unknown()) return base::Fail(gpu->mode.error()->Within(gpu->Title()));
    GpuChange change{.position = gpu->position,
                     .uuid = gpu->uuid,
                     .pci = gpu->pci,
                     .title = gpu->Title(),
                     .before = {},
                     .after = entry.before};
    const bool wanted = entry.before.mig_enabled;
    change.before.mig_enabled = gpu->mode.value()->current;
    change.changes_mode = *gpu->mode.value() != gpu::MigMode{wanted, wanted};
    if (gpu->layout.is_unknown() && wanted) {
      return base::Fail(gpu->layout.error()->Within(gpu->Title()));
    }
    if (gpu->layout.is_present()) change.before = *gpu->layout.value();
    const Layout now{.mig_enabled = wanted, .instances = change.before.instances};
    change.changes_instances = wanted && !SameLayout(now, entry.before);
    if (change.changes_mode || change.changes_instances) plan.changes.push_back(std::move(change));
  }
  return plan;
}

// What is done to the GPUs for one plan, forward or back. Each step reads the node anew, because a
// mode that changed, or a reset, makes it another.
class Steps {
 public:
  Steps(NodeGpus& node, const ChangeOptions& options, Planner planner, bool skip_reset)
      : node_(node), options_(options), planner_(std::move(planner)), skip_reset_(skip_reset) {}

  // Instances are removed, modes changed, GPUs reset. True: a mode waits for a reset of somebody
  // else's.
  base::Result<bool> ChangeModes(const Gpus& gpus, const Plan& plan);
  // On a node with the right modes.
  base::Status ChangeInstances(const Gpus& gpus, const Plan& plan);
  // That nothing is left to change.
  base::Status Verify();

  void Tell(const GpuChange& change, Step step) const {
    base::LogDebug("MIG change", {{"gpu", change.title}, {"step", ToString(step)}});
    if (options_.progress) options_.progress({change.position, change.uuid, step});
  }

 private:
  base::Status Reset(const Gpus& gpus, const std::vector<const GpuChange*>& changes);

  NodeGpus& node_;
  const ChangeOptions& options_;
  const Planner planner_;
  const bool skip_reset_;
};

base::Result<bool> Steps::ChangeModes(const Gpus& gpus, const Plan& plan) {
  std::vector<const GpuChange*> waiting;
  for (const auto& change : plan.changes) {
    if (!change.changes_mode) continue;
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, change));
    if (node_.has_driver() && change.before.mig_enabled && !change.after.mig_enabled) {
      Tell(change, Step::kClearing);
      TRY(node_.Clear(*gpu));
    }
    Tell(change, Step::kChangingMode);
    TRY_ASSIGN(const bool counts, node_.SetMode(*gpu, change.after.mig_enabled));
    if (!counts) waiting.push_back(&change);
  }
  if (waiting.empty()) return false;
  if (skip_reset_) {
    for (const auto* change : waiting) Tell(*change, Step::kWaitsForReset);
    return true;
  }
  TRY(Reset(gpus, waiting));
  return false;
}

base::Status Steps::Reset(const Gpus& gpus, const std::vector<const GpuChange*>& changes) {
  Gpus chosen;
  for (const auto* change : changes) {
    Tell(*change, Step::kResetting);
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, *change));
    chosen.push_back(*gpu);
  }
  return node_.Reset(chosen);
}

base::Status Steps::ChangeInstances(const Gpus& gpus, const Plan& plan) {
  for (const auto& change : plan.changes) {
    if (change.changes_mode && change.before.mig_enabled != change.after.mig_enabled) {
      return base::Fail(base::Error{
          base::Code::kConflict, "ModeNotChanged",
          change.after.mig_enabled
              ? "unable to apply MIG config with MIG mode disabled: " + change.title
              : "MIG mode is currently enabled, but the configuration specifies it should be "
                "disabled: " +
                    change.title});
    }
    if (!change.changes_instances) continue;
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, change));
    if (!change.before.instances.empty()) {
      Tell(change, Step::kClearing);
      TRY(node_.Clear(*gpu));
    }
    Tell(change, Step::kCreating);
    TRY(node_.Create(*gpu, change.after));
  }
  return {};
}

base::Status Steps::Verify() {
  TRY_ASSIGN(const Gpus gpus, node_.Read());
  TRY_ASSIGN(const Plan plan, planner_(gpus));
  if (plan.changes.empty()) return {};
  return base::Fail(base::Internal(
      "OtherGeometry",
      fmt::format("{} has not become what was asked for: MIG is {}, with {} GPU "
                  "instances",
                  plan.changes[0].title, plan.changes[0].before.mig_enabled ? "on" : "off",
                  plan.changes[0].before.instances.size())));
}

// One call of Apply, behind the lock.
class Change {
 public:
  Change(NodeGpus& node, const Planner& planner, const ChangeOptions& options)
      : node_(node),
        planner_(planner),
        options_(options),
        file_(FileOf(options.journal)),
        steps_(node, options, planner, options.skip_reset) {}

  base::Result<Outcome> Run();
  // Back to the journal that lies there.
  base::Status RollBack();

 private:
  base::Status Carry(const Gpus& gpus, Outcome& outcome);
  base::Status CarryInstances(Outcome& outcome);
  base::Status RefuseUsed(const Gpus& gpus, const Plan& plan, bool modes, bool instances);
  base::Status Record(const Plan& plan);
  base::Status TryRollBack();
  base::Error AfterRollBack(base::Error error);

  NodeGpus& node_;
  const Planner& planner_;
  const ChangeOptions& options_;
  const base::JournalFile file_;
  Steps steps_;
  // What was before, as the file has it: from then on GPUs may be touched.
  std::optional<Journal> journal_;
};

base::Result<Outcome> Change::Run() {
  TRY_ASSIGN(journal_, file_.Read(ParseJournal));
  TRY_ASSIGN(const Gpus gpus, node_.Read());
  auto plan = planner_(gpus);
  if (!plan) return base::Fail(journal_ ? AfterRollBack(plan.error()) : plan.error());
  Outcome outcome{.plan = *std::move(plan)};
  if (outcome.plan.changes.empty()) {
    // The modes alone do not tell whether a change that was cut off has come to its end.
    if (journal_ && !options_.mode_only) TRY(file_.Remove());
    return outcome;
  }
  if (const auto carried = Carry(gpus, outcome); !carried) {
    return base::Fail(journal_ ? AfterRollBack(carried.error()) : carried.error());
  }
  TRY(file_.Remove());
  for (const auto& change : outcome.plan.changes) {
    if (!outcome.needs_reset) steps_.Tell(change, Step::kDone);
  }
  return outcome;
}

base::Status Change::Carry(const Gpus& gpus, Outcome& outcome) {
  if (outcome.plan.ChangesModes()) {
    if (options_.before_modes) TRY(options_.before_modes());
    const bool all = !options_.before_instances;
    TRY(RefuseUsed(gpus, outcome.plan, true, all));
    TRY(Record(outcome.plan));
    TRY_ASSIGN(outcome.needs_reset, steps_.ChangeModes(gpus, outcome.plan));
  }
  if (outcome.needs_reset && options_.mode_only) return {};
  if (!options_.mode_only) TRY(CarryInstances(outcome));
  return steps_.Verify();
}

base::Status Change::CarryInstances(Outcome& outcome) {
  TRY_ASSIGN(const Gpus gpus, node_.Read());
  TRY_ASSIGN(const Plan plan, planner_(gpus));
  for (const auto& change : plan.changes) {
    const auto known = std::ranges::find(outcome.plan.changes, change.pci, &GpuChange::pci);
    if (known == outcome.plan.changes.end()) {
      outcome.plan.changes.push_back(change);
    } else {
      known->after = change.after;
      known->instances_planned_later = false;
    }
  }
  if (plan.ChangesInstances()) {
    if (options_.before_instances) TRY(options_.before_instances());
    TRY(RefuseUsed(gpus, plan, false, true));
    TRY(Record(plan));
  }
  return steps_.ChangeInstances(gpus, plan);
}

// Instances that are in use cannot be removed, and a GPU that is in use cannot be reset.
base::Status Change::RefuseUsed(const Gpus& gpus, const Plan& plan, bool modes, bool instances) {
  std::vector<std::string> busy;
  for (const auto& change : plan.changes) {
    const bool is_reset = modes && change.changes_mode && !options_.skip_reset;
    const bool is_cleared = !change.before.instances.empty() &&
                            ((modes && change.changes_mode && !change.after.mig_enabled) ||
                             (instances && change.changes_instances));
    if (!is_reset && !is_cleared) continue;
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, change));
    TRY_ASSIGN(const auto users, node_.Users(*gpu));
    if (users.empty()) continue;
    busy.push_back(fmt::format("{} is used by {}", change.title, base::Join(users, ", ")));
  }
  if (busy.empty()) return {};
  return base::Fail(
      base::Error{base::Code::kConflict, "InUse",
                  fmt::format("{}; end these programs first", base::Join(busy, "; "))});
}

// What a change before this one has recorded stays: that is the geometry to go back to.
base::Status Change::Record(const Plan& plan) {
  Journal journal = journal_.value_or(Journal());
  bool is_new = !journal_;
  for (const auto& change : plan.changes) {
    const auto known = std::ranges::find_if(
        journal, [&](const JournalEntry& entry) { return entry.IsOf(change.pci, change.uuid); });
    if (known != journal.end()) continue;
    journal.push_back({change.pci, change.uuid, change.before});
    is_new = true;
  }
  if (!is_new) return {};
  TRY(file_.WriteText(ToJsonText(journal)));
  journal_ = std::move(journal);
  return {};
}

base::Status Change::TryRollBack() {
  const Planner back = [this](const Gpus& gpus) { return PlanJournal(gpus, *journal_); };
  Steps steps(node_, options_, back, false);
  TRY_ASSIGN(Gpus gpus, node_.Read());
  TRY_ASSIGN(Plan plan, back(gpus));
  const Plan first = plan;
  for (const auto& change : first.changes) steps.Tell(change, Step::kRollingBack);
  const auto carry = [&]() -> base::Status {
    if (plan.ChangesModes()) {
      TRY(steps.ChangeModes(gpus, plan));
      TRY_ASSIGN(gpus, node_.Read());
      TRY_ASSIGN(plan, back(gpus));
    }
    TRY(steps.ChangeInstances(gpus, plan));
    return steps.Verify();
  };
  const auto carried = carry();
  for (const auto& change : first.changes) {
    steps.Tell(change, carried ? Step::kRolledBack : Step::kRollbackFailed);
  }
  return carried;
}

base::Status Change::RollBack() {
  TRY_ASSIGN(journal_, file_.Read(ParseJournal));
  if (!journal_) return {};
  TRY(TryRollBack());
  return file_.Remove();
}

base::Error Change::AfterRollBack(base::Error error) {
  auto back = TryRollBack();
  if (back) back = file_.Remove();
  if (back) {
    error.message += "; the MIG geometry before is back";
    return error;
  }
  // Whatever it was about: GPUs that are neither must not wait for a person to ask again.
  return base::Unavailable(
      "RollbackFailed",
      fmt::format(
          "{}; going back to the MIG geometry before failed too: {}; the next run tries again",
          error.message, back.error().message));
}

}  // namespace

std::string_view ToString(Step step) {
  switch (step) {
    case Step::kClearing:
      return "clearing";
    case Step::kChangingMode:
      return "changing-mode";
    case Step::kResetting:
      return "resetting";
    case Step::kCreating:
      return "creating";
    case Step::kDone:
      return "done";
    case Step::kWaitsForReset:
      return "waits-for-reset";
    case Step::kRollingBack:
      return "rolling-back";
    case Step::kRolledBack:
      return "rolled-back";
    case Step::kRollbackFailed:
      return "rollback-failed";
  }
  return "unknown";
}

base::Result<Outcome> Apply(NodeGpus& node, const Planner& planner, const ChangeOptions& options) {
  TRY_ASSIGN(const auto lock, FileOf(options.journal).Lock());
  return Change(node, planner, options).Run();
}

base::Result<bool> WasCutOff(const std::filesystem::path& journal) {
  return FileOf(journal).Exists();
}

base::Status Recover(NodeGpus& node, const ChangeOptions& options) {
  TRY_ASSIGN(const auto lock, FileOf(options.journal).Lock());
  const Planner none = [](const Gpus&) -> base::Result<Plan> { return Plan{}; };
  return Change(node, none, options).RollBack();
}

}  // namespace pitcrew::node::mig

#include "node/vgpu/change.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/journal_file.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/mig/change.h"
#include "node/vgpu/journal.h"
#include "node/vgpu/mig_geometry.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

using Gpus = std::vector<Gpu>;

base::JournalFile FileOf(const std::filesystem::path& journal) { return {journal, "vGPUs"}; }

base::Result<const Gpu*> Find(const Gpus& gpus, const gpu::PciAddress& pci) {
  const auto found = std::ranges::find(gpus, pci, &Gpu::pci);
  if (found != gpus.end()) return &*found;
  return base::Fail(base::Unavailable(
      "GpuMissing", fmt::format("the GPU at {} has vanished meanwhile", pci.SysfsName())));
}

// The MIG side of a plan, and the GPUs whose vGPUs have to go for it.
base::Result<mig::Plan> PlanMig(const Gpus& gpus, mig::NodeGpus& mig, const NamedConfig& config) {
  // Without the vGPU manager's driver a GPU may be a virtual machine's: its registers are not ours.
  const auto offers = [](const Gpu& gpu) {
    return gpu.framework != Framework::kNone || gpu.needs_functions();
  };
  if (std::ranges::none_of(gpus, offers)) return mig::Plan{};
  const auto mig_gpus = mig.Read();
  if (!mig_gpus) {
    if (WantsMig(gpus, config)) return base::Fail(mig_gpus.error());
    base::LogInfo("The MIG geometry stays as it is", {{"why", mig_gpus.error().message}});
    return mig::Plan{};
  }
  TRY_ASSIGN(const auto derived, ToMigConfig(gpus, *mig_gpus, config));
  return mig::PlanConfig(*mig_gpus, derived);
}

// Larger ones first: they are harder to place.
std::vector<std::pair<std::string, int>> InOrder(const Counts& counts) {
  std::vector<std::pair<std::string, int>> ordered(counts.begin(), counts.end());
  const auto size = [](const std::string& type) {
    const auto name = TypeName::Parse(type);
    return name ? name->gigabytes : 0;
  };
  std::ranges::stable_sort(
      ordered, [&](const auto& a, const auto& b) { return size(a.first) > size(b.first); });
  return ordered;
}

class Change {
 public:
  Change(NodeVgpus& node, mig::NodeGpus* mig, const ChangeOptions& options)
      : node_(node), mig_(mig), options_(options), file_(FileOf(options.journal)) {}

  base::Result<Plan> Run(const NamedConfig& config);
  // Back to the journal that lies there.
  base::Status RollBack();

 private:
  base::Status Carry(const Plan& plan, const NamedConfig& config);
  base::Status Divide(const NamedConfig& config);
  base::Status Make(const NamedConfig& config);
  base::Status Record(const Plan& plan);
  base::Status Remove(const Gpu& gpu, const std::vector<Vgpu>& vgpus);
  base::Status Create(const Gpu& gpu, const Counts& counts);
  base::Status CreateOnSlot(const Gpu& gpu, const gpu::PciAddress& slot, const std::string& type,
                            int& remaining);

  base::Status TryRollBack();
  base::Status GoBack();
  base::Status DivideBack(const Gpus& gpus);
  base::Status RemoveNew(const Gpus& gpus);
  base::Status RestoreFunctions(const Gpus& gpus);
  base::Status Restore(const Gpu& gpu, const JournalEntry& entry);
  base::Error AfterRollBack(base::Error error);

  [[nodiscard]] const JournalEntry* EntryOf(const Gpu& gpu) const {
    const auto found = std::ranges::find_if(
        journal_.gpus, [&](const JournalEntry& entry) { return entry.IsOf(gpu); });
    return found == journal_.gpus.end() ? nullptr : &*found;
  }
  void Tell(int position, Step step) const {
    base::LogDebug("vGPU change", {{"gpu", position}, {"step", ToString(step)}});
    if (options_.progress) options_.progress({position, step});
  }
  mig::ChangeOptions MigOptions() const {
    mig::ChangeOptions change;
    change.journal = options_.mig_journal;
    return change;
  }

  NodeVgpus& node_;
  mig::NodeGpus* mig_;
  const ChangeOptions& options_;
  const base::JournalFile file_;
  Journal journal_;           // what was before
  bool is_recorded_ = false;  // in the file: from then on GPUs may be touched
};

base::Result<Plan> Change::Run(const NamedConfig& config) {
  TRY_ASSIGN(auto left, file_.Read(ParseJournal));
  is_recorded_ = left.has_value();
  if (left) journal_ = *std::move(left);
  const auto plan = PlanNode(node_, mig_, config);
  if (!plan) return base::Fail(is_recorded_ ? AfterRollBack(plan.error()) : plan.error());
  node_.RememberTypes();
  if (!plan->empty()) {
    if (const auto carried = Carry(*plan, config); !carried) {
      return base::Fail(is_recorded_ ? AfterRollBack(carried.error()) : carried.error());
    }
  }
  if (is_recorded_) {
    // One that died while it divided the GPUs may have come to its end without saying so.
    if (plan->empty() && mig_ != nullptr && mig::WasCutOff(options_.mig_journal) != false) {
      TRY(Divide(config));
    }
    TRY(file_.Remove());
  }
  for (const auto& change : plan->changes) Tell(change.position, Step::kDone);
  return *plan;
}

base::Status Change::Carry(const Plan& plan, const NamedConfig& config) {
  TRY(Record(plan));
  {
    TRY_ASSIGN(const Gpus gpus, node_.Read());
    for (const auto& change : plan.changes) {
      if (change.removed.empty()) continue;
      TRY_ASSIGN(const Gpu* gpu, Find(gpus, change.pci));
      Tell(change.position, Step::kRemoving);
      TRY(Remove(*gpu, change.removed));
    }
  }
  if (!plan.mig.changes.empty()) {
    for (const auto& change : plan.mig.changes) Tell(change.position, Step::kDividing);
    TRY(Divide(config));
  }
  TRY(Make(config));
  TRY_ASSIGN(const Plan left, PlanNode(node_, mig_, config));
  if (left.empty()) return {};
  std::vector<std::string> titles;
  for (const auto& change : left.changes) titles.push_back(change.title);
  for (const auto& change : left.mig.changes) titles.push_back(change.title);
  return base::Fail(base::Internal(
      "NotAsWanted", fmt::format("every step succeeded, but the driver shows something else: {}",
                                 base::Join(titles, ", "))));
}

base::Status Change::Divide(const NamedConfig& config) {
  TRY_ASSIGN(const Gpus gpus, node_.Read());
  const mig::Planner planner =
      [&](const std::vector<mig::Gpu>& mig_gpus) -> base::Result<mig::Plan> {
    TRY_ASSIGN(const auto derived, ToMigConfig(gpus, mig_gpus, config));
    return mig::PlanConfig(mig_gpus, derived);
  };
  const auto divided = mig::Apply(*mig_, planner, MigOptions());
  if (divided) return {};
  return base::Fail(divided.error().Within("unable to handle MIG configuration"));
}

// What is still missing, on GPUs that are divided as they should be: what they offer is known now.
base::Status Change::Make(const NamedConfig& config) {
  TRY_ASSIGN(Gpus gpus, node_.Read());
  TRY_ASSIGN(Plan plan, PlanConfig(gpus, config));
  bool enabled = false;
  for (const auto& change : plan.changes) {
    if (!change.enables_functions) continue;
    Tell(change.position, Step::kEnablingFunctions);
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, change.pci));
    TRY(node_.EnableFunctions(*gpu));
    enabled = true;
  }
  if (enabled) {
    TRY_ASSIGN(gpus, node_.Read());
    // Told for the first time, and perhaps not again once the vGPUs are made.
    node_.RememberTypes();
    TRY_ASSIGN(plan, PlanConfig(gpus, config));
  }
  for (const auto& change : plan.changes) {
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, change.pci));
    TRY(Remove(*gpu, change.removed));
    if (change.created.empty()) continue;
    Tell(change.position, Step::kCreating);
    TRY(Create(*gpu, change.created));
  }
  return {};
}

// What a change before this one has recorded stays: that is what to go back to.
base::Status Change::Record(const Plan& plan) {
  std::set<gpu::PciAddress> touched;
  for (const auto& change : plan.changes) touched.insert(change.pci);
  for (const auto& change : plan.mig.changes) touched.insert(change.pci);
  TRY_ASSIGN(const Gpus gpus, node_.Read());
  for (const auto& gpu : gpus) {
    if (!touched.contains(gpu.pci) || EntryOf(gpu) != nullptr) continue;
    journal_.gpus.push_back({gpu.pci, gpu.id.ToString(), gpu.functions, gpu.vgpus});
  }
  if (!plan.mig.changes.empty() && !journal_.mig) {
    TRY_ASSIGN(const auto mig_gpus, mig_->Read());
    TRY_ASSIGN(journal_.mig, mig::MakeCheckpoint(mig_gpus));
  }
  TRY(file_.WriteText(ToJsonText(journal_)));
  is_recorded_ = true;
  return {};
}

base::Status Change::Remove(const Gpu& gpu, const std::vector<Vgpu>& vgpus) {
  for (const auto& vgpu : vgpus) TRY(node_.Remove(gpu, vgpu));
  return {};
}

base::Status Change::Create(const Gpu& gpu, const Counts& counts) {
  for (const auto& [type, count] : InOrder(counts)) {
    int remaining = count;
    for (const auto& slot : gpu.slots) {
      if (remaining > 0) TRY(CreateOnSlot(gpu, slot.address, type, remaining));
    }
    if (remaining == 0) continue;
    return base::Fail(base::Invalid(
        "DoesNotFit",
        fmt::format("{0}: failed to create {1} {2} vGPU devices on the GPU. ensure '{3}' does not "
                    "exceed the maximum supported instances for '{2}'",
                    gpu.Title(), remaining, type, count)));
  }
  return {};
}

// Each is made on what the driver offers at that moment: making one can take the room of others.
base::Status Change::CreateOnSlot(const Gpu& gpu, const gpu::PciAddress& slot,
                                  const std::string& type, int& remaining) {
  while (remaining > 0) {
    TRY_ASSIGN(const Slot now, node_.ReadSlot(gpu, slot));
    const auto offer = std::ranges::find(now.offers, type, &Offer::type);
    if (offer == now.offers.end() || offer->count == 0) return {};
    TRY(node_.Create(gpu, slot, *offer, RandomUuid()));
    --remaining;
  }
  return {};
}

base::Status Change::TryRollBack() {
  std::vector<int> positions;
  if (const auto gpus = node_.Read()) {
    for (const auto& gpu : *gpus) {
      if (EntryOf(gpu) != nullptr) positions.push_back(gpu.position);
    }
  }
  for (const int position : positions) Tell(position, Step::kRollingBack);
  const auto back = GoBack();
  for (const int position : positions) {
    Tell(position, back ? Step::kRolledBack : Step::kRollbackFailed);
  }
  return back;
}

base::Status Change::GoBack() {
  TRY_ASSIGN(Gpus gpus, node_.Read());
  TRY(DivideBack(gpus));
  TRY_ASSIGN(gpus, node_.Read());
  TRY(RemoveNew(gpus));
  TRY(RestoreFunctions(gpus));
  TRY_ASSIGN(gpus, node_.Read());
  for (const auto& gpu : gpus) {
    // A board that is gone, or another one in its place: nothing to bring back.
    if (const auto* entry = EntryOf(gpu)) TRY(Restore(gpu, *entry));
  }
  return {};
}

base::Status Change::DivideBack(const Gpus& gpus) {
  if (!journal_.mig) return {};
  if (mig_ == nullptr) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "MigNeeded",
        "the change that was cut off has divided GPUs anew; it is taken back with --with-mig"});
  }
  const auto back = [this](const std::vector<mig::Gpu>& mig_gpus) {
    return mig::PlanCheckpoint(mig_gpus, *journal_.mig);
  };
  TRY_ASSIGN(const auto mig_gpus, mig_->Read());
  TRY_ASSIGN(const auto plan, back(mig_gpus));
  for (const auto& change : plan.changes) {
    TRY_ASSIGN(const Gpu* gpu, Find(gpus, change.pci));
    TRY(Remove(*gpu, gpu->vgpus));
  }
  TRY(mig::Apply(*mig_, back, MigOptions()));
  return {};
}

// Those that were not there before.
base::Status Change::RemoveNew(const Gpus& gpus) {
  for (const auto& gpu : gpus) {
    const auto* entry = EntryOf(gpu);
    if (entry == nullptr) continue;
    for (const auto& vgpu : gpu.vgpus) {
      const bool was_there = std::ranges::any_of(
          entry->vgpus, [&](const Vgpu& before) { return before.IsSameAs(vgpu); });
      if (was_there) continue;
      if (vgpu.holders.is_present() && !vgpu.holders.value()->empty()) {
        return base::Fail(base::Error{base::Code::kConflict, "InUse",
                                      fmt::format("{} is held by {}", vgpu.Title(),
                                                  base::Join(*vgpu.holders.value(), ", "))});
      }
      TRY(node_.Remove(gpu, vgpu));
    }
  }
  return {};
}

base::Status Change::RestoreFunctions(const Gpus& gpus) {
  for (const auto& gpu : gpus) {
    const auto* entry = EntryOf(gpu);
    if (entry == nullptr || (entry->functions == 0) == (gpu.functions == 0)) continue;
    TRY(entry->functions == 0 ? node_.DisableFunctions(gpu) : node_.EnableFunctions(gpu));
  }
  return {};
}

base::Status Change::Restore(const Gpu& gpu, const JournalEntry& entry) {
  for (const auto& before : entry.vgpus) {
    const bool is_there =
        std::ranges::any_of(gpu.vgpus, [&](const Vgpu& vgpu) { return vgpu.IsSameAs(before); });
    if (is_there) continue;
    Tell(gpu.position, Step::kCreating);
    TRY_ASSIGN(const Slot slot, node_.ReadSlot(gpu, before.slot));
    const auto offer = std::ranges::find_if(slot.offers, [&](const Offer& one) {
      return before.type_id.empty() ? one.type == before.type : one.type_id == before.type_id;
    });
    if (offer == slot.offers.end()) {
      return base::Fail(base::Unavailable(
          "NoRoomLeft",
          fmt::format("{} cannot be made again: the driver does not offer it", before.Title())));
    }
    TRY(node_.Create(gpu, before.slot, *offer, before.uuid));
  }
  return {};
}

base::Status Change::RollBack() {
  TRY_ASSIGN(auto left, file_.Read(ParseJournal));
  if (!left) return {};
  journal_ = *std::move(left);
  TRY(TryRollBack());
  return file_.Remove();
}

base::Error Change::AfterRollBack(base::Error error) {
  auto back = TryRollBack();
  if (back) back = file_.Remove();
  if (back) {
    error.message += "; the vGPUs before are back";
    return error;
  }
  // Whatever it was about: GPUs that are neither must not wait for a person to ask again.
  return base::Unavailable(
      "RollbackFailed",
      fmt::format("{}; going back to the vGPUs before failed too: {}; the next run tries again",
                  error.message, back.error().message));
}

}  // namespace

std::string_view ToString(Step step) {
  switch (step) {
    case Step::kRemoving:
      return "removing";
    case Step::kDividing:
      return "dividing";
    case Step::kEnablingFunctions:
      return "enabling-functions";
    case Step::kCreating:
      return "creating";
    case Step::kDone:
      return "done";
    case Step::kRollingBack:
      return "rolling-back";
    case Step::kRolledBack:
      return "rolled-back";
    case Step::kRollbackFailed:
      return "rollback-failed";
  }
  return "unknown";
}

base::Result<Plan> PlanNode(NodeVgpus& node, mig::NodeGpus* mig, const NamedConfig& config) {
  TRY_ASSIGN(const Gpus gpus, node.Read());
  mig::Plan mig_plan;
  std::set<gpu::PciAddress> divided_anew;
  if (mig != nullptr) {
    TRY_ASSIGN(mig_plan, PlanMig(gpus, *mig, config));
    for (const auto& change : mig_plan.changes) divided_anew.insert(change.pci);
  }
  TRY_ASSIGN(Plan plan, PlanConfig(gpus, config, divided_anew));
  for (const auto& remark : mig_plan.remarks) plan.remarks.push_back(remark);
  plan.mig = std::move(mig_plan);
  return plan;
}

base::Result<Plan> Apply(NodeVgpus& node, mig::NodeGpus* mig, const NamedConfig& config,
                         const ChangeOptions& options) {
  TRY_ASSIGN(const auto lock, FileOf(options.journal).Lock());
  return Change(node, mig, options).Run(config);
}

base::Result<bool> WasCutOff(const std::filesystem::path& journal) {
  return FileOf(journal).Exists();
}

base::Status Recover(NodeVgpus& node, mig::NodeGpus* mig, const ChangeOptions& options) {
  TRY_ASSIGN(const auto lock, FileOf(options.journal).Lock());
  return Change(node, mig, options).RollBack();
}

}  // namespace pitcrew::node::vgpu

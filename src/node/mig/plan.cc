#include "node/mig/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "node/mig/planner.h"

namespace pitcrew::node::mig {
namespace {

bool AnyCanDoMig(const std::vector<Gpu>& gpus, const ConfigEntry& entry) {
  return std::ranges::any_of(gpus, [&](const Gpu& gpu) {
    return entry.IsFor(gpu.id, gpu.position) && !gpu.CannotDoMig();
  });
}

// The entry that holds for a GPU: the last that means it. Null: none does.
const ConfigEntry* EntryOf(const NamedConfig& config, const Gpu& gpu) {
  const ConfigEntry* found = nullptr;
  for (const auto& entry : config) {
    if (entry.IsFor(gpu.id, gpu.position)) found = &entry;
  }
  return found;
}

base::Error Unreadable(const Gpu& gpu) {
  return gpu.mode.error()->Within(gpu.Title() + " cannot be read, so its MIG geometry is unknown");
}

base::Error NotCapable(std::string_view what, const Gpu& gpu) {
  return base::Invalid("NotMigCapable", fmt::format("{}: {}", what, gpu.Title()));
}

GpuChange NewChange(const Gpu& gpu, Layout after) {
  GpuChange change{.position = gpu.position,
                   .uuid = gpu.uuid,
                   .pci = gpu.pci,
                   .title = gpu.Title(),
                   .before = {},
                   .after = std::move(after)};
  const auto& mode = *gpu.mode.value();
  change.before.mig_enabled = mode.current;
  if (gpu.layout.is_present()) change.before = *gpu.layout.value();
  // A wish for the other mode that still waits is taken back.
  change.changes_mode = mode != gpu::MigMode{change.after.mig_enabled, change.after.mig_enabled};
  return change;
}

bool HasEmptyInstance(const Layout& layout) {
  return std::ranges::any_of(layout.instances,
                             [](const GpuInstance& instance) { return instance.compute.empty(); });
}

// Whether the GPU has these instances and nothing else. A GPU instance without a compute instance
// is something else: it takes room, and serves nobody.
base::Result<bool> HasCounts(const Gpu& gpu, const ProfileCounts& wanted) {
  if (gpu.layout.is_unknown()) return base::Fail(gpu.layout.error()->Within(gpu.Title()));
  if (!gpu.layout.is_present() || !gpu.layout.value()->mig_enabled) return wanted.empty();
  if (HasEmptyInstance(*gpu.layout.value())) return false;
  TRY_ASSIGN(const auto current, CountsOf(gpu, *gpu.layout.value()));
  return current == wanted;
}

// Fills in what instances the change makes.
base::Status PlanInstances(const Gpu& gpu, const ProfileCounts& counts, GpuChange& change) {
  auto layout = PlanLayout(gpu, counts);
  if (!layout && layout.error().reason == "ProfilesUnknown" && !change.before.mig_enabled) {
    change.changes_instances = !counts.empty();
    change.instances_planned_later = change.changes_instances;
    return {};
  }
  TRY(layout);
  TRY_ASSIGN(const auto canonical, CanonicalCounts(gpu, counts));
  TRY_ASSIGN(const bool same, HasCounts(gpu, canonical));
  change.changes_instances = !same;
  change.after = *std::move(layout);
  return {};
}

// Nothing for a board that is passed over.
base::Result<std::optional<GpuChange>> PlanGpu(const Gpu& gpu, const ConfigEntry& entry,
                                               bool mode_only, Plan& plan) {
  if (gpu.mode.is_unknown()) return base::Fail(Unreadable(gpu));
  if (gpu.CannotDoMig()) {
    if (!entry.mig_enabled) return std::nullopt;
    if (entry.devices) {
      return base::Fail(NotCapable("cannot set MIG mode on non MIG-capable GPU", gpu));
    }
    plan.remarks.push_back(gpu.Title() + " cannot do MIG and is passed over");
    return std::nullopt;
  }
  GpuChange change = NewChange(gpu, {.mig_enabled = entry.mig_enabled, .instances = {}});
  if (entry.mig_enabled && !mode_only) TRY(PlanInstances(gpu, entry.mig_devices, change));
  if (!change.changes_mode && !change.changes_instances) return std::nullopt;
  return change;
}

void RemarkMissingPositions(const std::vector<Gpu>& gpus, const NamedConfig& config, Plan& plan) {
  for (const auto& entry : config) {
    for (const int position : entry.devices.value_or(std::vector<int>())) {
      const bool there = position >= 0 && static_cast<std::size_t>(position) < gpus.size();
      if (there) continue;
      plan.remarks.push_back(fmt::format("the configuration names GPU {}, and this node has {}",
                                         position, gpus.size()));
    }
  }
}

const Gpu* FindGpu(const std::vector<Gpu>& gpus, std::string_view uuid) {
  const auto found = std::ranges::find(gpus, uuid, &Gpu::uuid);
  return found == gpus.end() ? nullptr : &*found;
}

base::Result<const Gpu*> RequireGpu(const std::vector<Gpu>& gpus, const std::string& uuid) {
  const Gpu* gpu = FindGpu(gpus, uuid);
  if (gpu == nullptr) {
    return base::Fail(base::NotFound(
        "GpuMissing",
        fmt::format("the checkpoint has GPU {}, and this node has none with that UUID; "
                    "was it replaced?",
                    uuid)));
  }
  if (gpu->mode.is_unknown()) return base::Fail(Unreadable(*gpu));
  if (gpu->CannotDoMig()) {
    return base::Fail(NotCapable("cannot set MIG mode on non MIG-capable GPU", *gpu));
  }
  return gpu;
}

// All problems in one message, with the reason and code of the first.
class Problems {
 public:
  void Add(const base::Error& error) {
    if (!first_) first_ = error;
    messages_.push_back(error.message);
  }
  [[nodiscard]] base::Status Tell() const {
    if (!first_) return {};
    base::Error error = *first_;
    error.message = base::Join(messages_, "; ");
    return base::Fail(std::move(error));
  }

 private:
  std::optional<base::Error> first_;
  std::vector<std::string> messages_;
};

std::unexpected<base::Error> NotApplied(std::string message) {
  return base::Fail(base::Error{base::Code::kConflict, "NotApplied", std::move(message)});
}

// Upstream's words for a mode that differs.
base::Status CompareMode(const Gpu& gpu, bool wanted) {
  if (gpu.mode.is_unknown()) return base::Fail(Unreadable(gpu));
  if (gpu.mode.value()->current == wanted) return {};
  return NotApplied(fmt::format("current mode different than mode being asserted: MIG is {} on {}",
                                wanted ? "off" : "on", gpu.Title()));
}

base::Status CompareConfig(const std::vector<Gpu>& gpus, const Gpu& gpu, const ConfigEntry& entry) {
  if (gpu.mode.is_unknown()) return base::Fail(Unreadable(gpu));
  const bool passed_over = !entry.devices && AnyCanDoMig(gpus, entry);
  if (gpu.CannotDoMig()) {
    if (!entry.mig_enabled || passed_over) return {};
    return NotApplied("error getting MIG mode: non MIG-capable GPU: " + gpu.Title());
  }
  TRY(CompareMode(gpu, entry.mig_enabled));
  if (!entry.mig_enabled) return {};
  TRY_ASSIGN(const auto wanted, CanonicalCounts(gpu, entry.mig_devices));
  TRY_ASSIGN(const bool same, HasCounts(gpu, wanted));
  if (same) return {};
  return NotApplied(
      fmt::format("not all GPUs match the specified config: {} has other instances", gpu.Title()));
}

}  // namespace

bool Plan::ChangesModes() const { return std::ranges::any_of(changes, &GpuChange::changes_mode); }
bool Plan::ChangesInstances() const {
  return std::ranges::any_of(changes, &GpuChange::changes_instances);
}

base::Result<Plan> PlanConfig(const std::vector<Gpu>& gpus, const NamedConfig& config,
                              bool mode_only) {
  Plan plan;
  Problems problems;
  RemarkMissingPositions(gpus, config, plan);
  for (const Gpu& gpu : gpus) {
    const ConfigEntry* entry = EntryOf(config, gpu);
    if (entry == nullptr) continue;
    auto change = PlanGpu(gpu, *entry, mode_only, plan);
    if (!change) {
      problems.Add(change.error());
    } else if (*change) {
      plan.changes.push_back(**std::move(change));
    }
  }
  TRY(problems.Tell());
  return plan;
}

base::Result<Plan> PlanCheckpoint(const std::vector<Gpu>& gpus, const Checkpoint& checkpoint,
                                  bool mode_only) {
  Plan plan;
  Problems problems;
  for (const auto& device : checkpoint.devices) {
    const auto gpu = RequireGpu(gpus, device.uuid);
    if (!gpu) {
      problems.Add(gpu.error());
      continue;
    }
    GpuChange change = NewChange(**gpu, device.layout);
    if (!mode_only && device.layout.mig_enabled) {
      const Layout now{.mig_enabled = true, .instances = change.before.instances};
      change.changes_instances = !SameLayout(now, device.layout);
    }
    if (change.changes_mode || change.changes_instances) plan.changes.push_back(std::move(change));
  }
  TRY(problems.Tell());
  std::ranges::sort(plan.changes, {}, &GpuChange::position);
  return plan;
}

base::Status AssertModes(const std::vector<Gpu>& gpus, const NamedConfig& config) {
  for (const Gpu& gpu : gpus) {
    const ConfigEntry* entry = EntryOf(config, gpu);
    if (entry == nullptr) continue;
    if (!gpu.CannotDoMig()) {
      TRY(CompareMode(gpu, entry->mig_enabled));
    } else if (entry->mig_enabled && (entry->devices || !AnyCanDoMig(gpus, *entry))) {
      return base::Fail(
          NotCapable("unable to assert MIG mode enabled on non MIG-capable GPU", gpu));
    }
  }
  return {};
}

base::Status AssertConfig(const std::vector<Gpu>& gpus, const NamedConfig& config) {
  for (const Gpu& gpu : gpus) {
    const ConfigEntry* entry = EntryOf(config, gpu);
    if (entry == nullptr) {
      return NotApplied(
          fmt::format("not all GPUs match the specified config: no entry is for {} ({})",
                      gpu.Title(), gpu.id.ToString()));
    }
    TRY(CompareConfig(gpus, gpu, *entry));
  }
  return {};
}

}  // namespace pitcrew::node::mig

#include "node/vgpu/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/strings.h"
#include "node/vgpu/fit.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

// By the GPU's names. Two types of one name without their attributes count together.
base::Result<Counts> Resolve(const Gpu& gpu, const Counts& written) {
  Counts resolved;
  for (const auto& [type, count] : written) {
    const auto plain = WithoutAttribute(type);
    if (gpu.FindType(type) != nullptr) {
      resolved[type] += count;
    } else if (gpu.FindType(plain) != nullptr) {
      resolved[plain] += count;
    } else {
      return base::Fail(base::Invalid(
          "NoSuchType",
          fmt::format("vGPU type {} is not supported on GPU (index={}, address={}); it has {}",
                      type, gpu.position, gpu.pci.SysfsName(), DescribeTypes(gpu))));
    }
  }
  return resolved;
}

// The entry that decides about a GPU, and those that it was chosen over.
struct Choice {
  const ConfigEntry* entry = nullptr;
  std::vector<const ConfigEntry*> passed_over = {};
};

Choice ChooseEntry(const Gpu& gpu, const NamedConfig& config) {
  std::vector<const ConfigEntry*> alternatives;  // the last one first
  for (const auto& entry : config | std::views::reverse) {
    if (!entry.IsFor(gpu.id, gpu.position)) continue;
    const bool is_equal =
        alternatives.empty() || (!entry.device_filter.empty() &&
                                 entry.device_filter == alternatives.front()->device_filter &&
                                 entry.devices == alternatives.front()->devices);
    if (is_equal) alternatives.push_back(&entry);
  }
  if (alternatives.empty()) return {};
  const auto supported = std::ranges::find_if(alternatives, [&](const ConfigEntry* entry) {
    return Resolve(gpu, entry->vgpu_devices).has_value();
  });
  if (supported == alternatives.end()) return {alternatives.front()};
  return {*supported, std::vector(alternatives.begin(), supported)};
}

// Whether the types that the GPU tells are all that it has: not before its functions are enabled,
// nor before it is divided.
bool TellsTypes(const Gpu& gpu, bool is_divided_anew) {
  return gpu.framework != Framework::kNone && !is_divided_anew;
}

std::string Written(const Counts& counts) {
  std::vector<std::string> texts;
  for (const auto& [type, count] : counts) texts.push_back(fmt::format("{} x {}", count, type));
  return texts.empty() ? "no vGPUs" : base::Join(texts, ", ");
}

// Those that go: more than are wanted, of each type those that nobody holds first, then the last.
std::vector<Vgpu> Surplus(const Gpu& gpu, const Counts& wanted) {
  std::map<std::string, std::vector<const Vgpu*>> by_type;
  for (const auto& vgpu : gpu.vgpus) by_type[vgpu.type].push_back(&vgpu);
  std::vector<Vgpu> surplus;
  for (auto& [type, vgpus] : by_type) {
    const auto found = wanted.find(type);
    const auto kept = found == wanted.end() ? 0U : static_cast<std::size_t>(found->second);
    std::ranges::stable_partition(vgpus, [](const Vgpu* vgpu) {
      return vgpu->holders.is_unknown() || !vgpu->holders.value()->empty();
    });
    for (std::size_t i = kept; i < vgpus.size(); ++i) surplus.push_back(*vgpus[i]);
  }
  return surplus;
}

base::Status RefuseHeld(const GpuChange& change) {
  std::vector<std::string> held;
  for (const auto& vgpu : change.removed) {
    if (vgpu.holders.is_unknown()) {
      return base::Fail(vgpu.holders.error()->Within(
          fmt::format("{}: whether {} is in use", change.title, vgpu.Title())));
    }
    if (vgpu.holders.value()->empty()) continue;
    held.push_back(
        fmt::format("{} is held by {}", vgpu.Title(), base::Join(*vgpu.holders.value(), ", ")));
  }
  if (held.empty()) return {};
  return base::Fail(base::Error{base::Code::kConflict, "InUse",
                                fmt::format("{}: {}; shut these virtual machines down first",
                                            change.title, base::Join(held, "; "))});
}

Counts Missing(const Gpu& gpu, const GpuChange& change, const Counts& wanted) {
  Counts missing = wanted;
  for (const auto& vgpu : gpu.vgpus) {
    const bool goes =
        std::ranges::any_of(change.removed, [&](const Vgpu& one) { return one.IsSameAs(vgpu); });
    const auto found = missing.find(vgpu.type);
    if (!goes && found != missing.end()) --found->second;
  }
  std::erase_if(missing, [](const auto& count) { return count.second <= 0; });
  return missing;
}

base::Status RequireVgpus(const Gpu& gpu) {
  if (gpu.framework != Framework::kNone || gpu.needs_functions()) return {};
  return base::Fail(base::Error{
      base::Code::kUnsupported, "NoVgpus",
      fmt::format("no parent devices found for GPU at index '{}' ({}): its driver offers no vGPUs; "
                  "the vGPU manager's driver is not loaded, another driver has the GPU, or the "
                  "board cannot",
                  gpu.position, gpu.pci.SysfsName())});
}

base::Status RequireNames(const Gpu& gpu) {
  const auto nameless = std::ranges::find(gpu.vgpus, "", &Vgpu::type);
  if (nameless == gpu.vgpus.end()) return {};
  return base::Fail(base::Unavailable(
      "TypeUnknown",
      fmt::format("{}: the driver does not tell which type the {} is while the GPU is full; remove "
                  "it by hand (write 0 to /sys/bus/pci/devices/{}/nvidia/current_vgpu_type), or "
                  "apply a configuration without vGPUs first",
                  gpu.Title(), nameless->Title(), nameless->slot.SysfsName())));
}

// The change of one GPU; nullopt when it is as wanted.
base::Result<std::optional<GpuChange>> PlanGpu(const Gpu& gpu, const Counts& wanted,
                                               bool is_divided_anew) {
  GpuChange change{.position = gpu.position, .pci = gpu.pci, .title = gpu.Title()};
  if (!wanted.empty()) {
    TRY(RequireVgpus(gpu));
    TRY(RequireNames(gpu));
  }
  if (is_divided_anew) {
    change.removed = gpu.vgpus;
  } else {
    change.removed = Surplus(gpu, wanted);
  }
  if (TellsTypes(gpu, is_divided_anew)) TRY(CheckFits(gpu, wanted));
  TRY(RefuseHeld(change));
  change.created = Missing(gpu, change, wanted);
  change.enables_functions = gpu.needs_functions() && !wanted.empty();
  if (change.removed.empty() && change.created.empty()) return std::nullopt;
  return change;
}

base::Error AllOf(const std::vector<base::Error>& problems) {
  auto error = problems.front();
  for (std::size_t i = 1; i < problems.size(); ++i) error.message += "; " + problems[i].message;
  return error;
}

}  // namespace

const ConfigEntry* EntryFor(const Gpu& gpu, const NamedConfig& config) {
  return ChooseEntry(gpu, config).entry;
}

base::Result<std::optional<Counts>> WantedOf(const Gpu& gpu, const NamedConfig& config) {
  const auto* entry = EntryFor(gpu, config);
  if (entry == nullptr) return std::nullopt;
  if (gpu.framework == Framework::kNone) return entry->vgpu_devices;
  TRY_ASSIGN(auto resolved, Resolve(gpu, entry->vgpu_devices));
  return resolved;
}

base::Result<Plan> PlanConfig(const std::vector<Gpu>& gpus, const NamedConfig& config,
                              const std::set<gpu::PciAddress>& divided_anew) {
  Plan plan;
  std::vector<base::Error> problems;
  for (const auto& gpu : gpus) {
    const bool is_divided_anew = divided_anew.contains(gpu.pci);
    const auto choice = ChooseEntry(gpu, config);
    if (choice.entry == nullptr) {
      plan.remarks.push_back(fmt::format("{} stays as it is: no entry is for its device id {}",
                                         gpu.Title(), gpu.id.ToString()));
      continue;
    }
    for (const auto* other : choice.passed_over) {
      plan.remarks.push_back(fmt::format("{}: the entry with {} counts, because the GPU has no {}",
                                         gpu.Title(), Written(choice.entry->vgpu_devices),
                                         Written(other->vgpu_devices)));
    }
    base::Result<Counts> wanted = choice.entry->vgpu_devices;
    if (TellsTypes(gpu, is_divided_anew)) wanted = Resolve(gpu, *wanted);
    if (!wanted) {
      problems.push_back(wanted.error());
      continue;
    }
    auto change = PlanGpu(gpu, *wanted, is_divided_anew);
    if (!change) {
      problems.push_back(change.error());
    } else if (*change) {
      plan.changes.push_back(**std::move(change));
    }
  }
  if (!problems.empty()) return base::Fail(AllOf(problems));
  return plan;
}

base::Status AssertConfig(const std::vector<Gpu>& gpus, const NamedConfig& config) {
  std::vector<std::string> differences;
  for (const auto& gpu : gpus) {
    const auto wanted = WantedOf(gpu, config);
    if (!wanted) {
      differences.push_back(wanted.error().message);
    } else if (!*wanted) {
      differences.push_back(
          fmt::format("not all GPUs match the specified config: no entry is for {} with device id "
                      "{}",
                      gpu.Title(), gpu.id.ToString()));
    } else if (CountsOf(gpu) != **wanted) {
      differences.push_back(fmt::format("{} has {}, wanted is {}", gpu.Title(),
                                        Written(CountsOf(gpu)), Written(**wanted)));
    }
  }
  if (differences.empty()) return {};
  return base::Fail(
      base::Error{base::Code::kConflict, "NotApplied", base::Join(differences, "; ")});
}

}  // namespace pitcrew::node::vgpu

#include "node/mig/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "gpu/mig_profile.h"
#include "node/mig/profiles.h"

namespace pitcrew::node::mig {
namespace {

void Unite(std::vector<std::string>& into, const std::vector<std::string>& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::ranges::sort(into);
  into.erase(std::ranges::unique(into).begin(), into.end());
}

bool SaysTheSame(const ConfigEntry& a, const ConfigEntry& b) {
  return a.mig_enabled == b.mig_enabled && a.mig_devices == b.mig_devices;
}

// Positions of all GPUs that one of these filters is for.
std::vector<int> PositionsOf(const NamedConfig& per_gpu, const std::vector<std::string>& filters) {
  std::vector<int> positions;
  for (const auto& gpu : per_gpu) {
    if (std::ranges::find(filters, gpu.device_filter.at(0)) == filters.end()) continue;
    positions.push_back(gpu.devices->at(0));
  }
  std::ranges::sort(positions);
  return positions;
}

base::Result<ConfigEntry> ExportGpu(const Gpu& gpu) {
  ConfigEntry entry{.device_filter = {gpu.id.Primary().ToString()},
                    .devices = std::vector<int>{gpu.position}};
  if (gpu.CannotDoMig()) return entry;
  if (gpu.mode.is_unknown()) return base::Fail(gpu.mode.error()->Within(gpu.Title()));
  entry.mig_enabled = gpu.mode.value()->current;
  if (!entry.mig_enabled) return entry;
  if (gpu.layout.is_unknown()) return base::Fail(gpu.layout.error()->Within(gpu.Title()));
  if (!gpu.layout.is_present()) return entry;
  TRY_ASSIGN(entry.mig_devices, CountsOf(gpu, *gpu.layout.value()));
  return entry;
}

// Upstream's list (mig-manager.md section 8).
const ProfileCounts& CountsOfA30() {
  static const ProfileCounts kCounts = {
      {"1g.6gb", 4}, {"1g.6gb+me", 1}, {"2g.12gb", 2}, {"2g.12gb+me", 1}, {"4g.24gb", 1}};
  return kCounts;
}

base::Result<ProfileCounts> CountsOfBoard(const Gpu& gpu) {
  if (HasWrongCounts(gpu)) return CountsOfA30();
  ProfileCounts counts;
  const auto* profiles = gpu.profiles.value();
  for (const Profile& profile : profiles == nullptr ? std::vector<Profile>() : *profiles) {
    for (unsigned index = 0; index < gpu::kComputeInstanceProfileCount; ++index) {
      if (gpu::ComputeInstanceSlices(index) != gpu::GpuInstanceSlices(profile.index)) continue;
      TRY_ASSIGN(const auto name,
                 gpu::NameMigProfile(profile.index, index, profile.memory_mib, gpu.memory_bytes));
      counts.emplace(name.Name(), profile.count);
      break;
    }
  }
  return counts;
}

using Boards = std::vector<BoardProfiles>;

// Boards as filters, where there is more than one kind to tell apart.
std::vector<std::string> FilterOf(const std::set<std::string>& ids, bool is_needed) {
  if (!is_needed) return {};
  return {ids.begin(), ids.end()};
}

NamedConfig ForProfile(const Boards& boards, const std::string& name, bool needs_filter) {
  std::map<int, std::set<std::string>> ids_by_count;
  for (const auto& board : boards) {
    const auto found = board.counts.find(name);
    if (found != board.counts.end()) ids_by_count[found->second].insert(board.id.ToString());
  }
  NamedConfig config;
  for (const auto& [count, ids] : ids_by_count) {
    config.push_back({.device_filter = FilterOf(ids, needs_filter),
                      .mig_enabled = true,
                      .mig_devices = {{name, count}}});
  }
  return config;
}

// The profile without attributes of which most fit, among those of a number of slices.
std::string BaseProfile(const ProfileCounts& counts, int slices) {
  auto plain = counts | std::views::filter([&](const auto& entry) {
                 const auto profile = gpu::MigProfile::Parse(entry.first);
                 return profile && profile->gpu_slices == slices && profile->attributes.empty() &&
                        profile->negative_attributes.empty();
               });
  const auto best = std::ranges::max_element(plain, {}, &ProfileCounts::value_type::second);
  return best == plain.end() ? "" : best->first;
}

// Two small instances, one of two slices, and on boards of seven one of three. Empty where the
// board has no such division.
ProfileCounts Balanced(const ProfileCounts& counts) {
  int slices = 0;
  for (const int candidate : {1, 2, 3, 4, 6, 7, 8}) {
    if (!BaseProfile(counts, candidate).empty()) slices = candidate;
  }
  if (slices != 7 && slices != 4) return {};
  ProfileCounts balanced;
  for (const auto& [size, count] : {std::pair{1, 2}, {2, 1}, {3, 1}}) {
    if (size == 3 && slices == 4) continue;
    const auto name = BaseProfile(counts, size);
    if (name.empty()) return {};
    balanced[name] = count;
  }
  return balanced;
}

NamedConfig AllBalanced(const Boards& boards, bool needs_filter) {
  std::map<std::string, ProfileCounts> by_id;
  for (const auto& board : boards) by_id.try_emplace(board.id.ToString(), board.counts);
  NamedConfig config;
  for (const auto& [id, counts] : by_id) {
    auto balanced = Balanced(counts);
    if (balanced.empty()) continue;
    config.push_back({.device_filter = FilterOf({id}, needs_filter),
                      .mig_enabled = true,
                      .mig_devices = std::move(balanced)});
  }
  return config;
}

}  // namespace

NamedConfig MergeEntries(const NamedConfig& per_gpu) {
  NamedConfig merged;
  std::set<std::string> ids;
  for (const auto& gpu : per_gpu) {
    ids.insert(gpu.device_filter.at(0));
    const auto same = std::ranges::find_if(
        merged, [&](const ConfigEntry& entry) { return SaysTheSame(entry, gpu); });
    if (same == merged.end()) {
      merged.push_back(gpu);
      continue;
    }
    Unite(same->device_filter, gpu.device_filter);
    same->devices->push_back(gpu.devices->at(0));
    std::ranges::sort(*same->devices);
  }
  for (auto& entry : merged) {
    if (*entry.devices == PositionsOf(per_gpu, entry.device_filter)) entry.devices.reset();
    entry.filter_is_text = entry.device_filter.size() == 1;
    if (ids.size() > 1 && merged.size() > 1) continue;
    entry.device_filter.clear();
    entry.filter_is_text = false;
  }
  return merged;
}

base::Result<Configuration> ExportConfiguration(const std::vector<Gpu>& gpus,
                                                std::string_view label) {
  NamedConfig per_gpu;
  for (const Gpu& gpu : gpus) {
    TRY_ASSIGN(auto entry, ExportGpu(gpu));
    per_gpu.push_back(std::move(entry));
  }
  Configuration configuration{.version = "v1", .configs = {}};
  configuration.configs[std::string(label)] = MergeEntries(per_gpu);
  return configuration;
}

base::Result<std::vector<BoardProfiles>> DiscoverProfiles(const std::vector<Gpu>& gpus) {
  Boards boards;
  bool any_capable = false;
  for (const Gpu& gpu : gpus) {
    if (gpu.CannotDoMig() || gpu::IsSkippedDeviceName(gpu.name)) continue;
    if (gpu.mode.is_unknown()) return base::Fail(gpu.mode.error()->Within(gpu.Title()));
    any_capable = true;
    TRY_ASSIGN(auto counts, CountsOfBoard(gpu));
    if (!counts.empty()) boards.push_back({gpu.id.Primary(), std::move(counts)});
  }
  if (!any_capable) {
    return base::Fail(
        base::NotFound("NoMigCapableGpu", "no MIG-capable devices found on the system"));
  }
  if (boards.empty()) {
    return base::Fail(
        base::NotFound("NoProfiles",
                       "no MIG profiles discovered for MIG-capable GPUs; old drivers, such "
                       "as 535, tell them only while MIG is on"));
  }
  return boards;
}

Configuration GenerateConfiguration(const std::vector<BoardProfiles>& boards) {
  Configuration configuration{.version = "v1", .configs = {}};
  configuration.configs["all-disabled"] = {{.mig_enabled = false}};
  configuration.configs["all-enabled"] = {{.mig_enabled = true}};
  std::set<std::string> names;
  std::set<std::string> ids;
  for (const auto& board : boards) {
    ids.insert(board.id.ToString());
    for (const auto& [name, count] : board.counts) names.insert(name);
  }
  const bool needs_filter = ids.size() > 1;
  auto balanced = AllBalanced(boards, needs_filter);
  if (!balanced.empty()) configuration.configs["all-balanced"] = std::move(balanced);
  for (const auto& name : names) {
    configuration.configs[ConfigName(name)] = ForProfile(boards, name, needs_filter);
  }
  return configuration;
}

std::string ConfigName(std::string_view profile) {
  std::string name = "all-" + std::string(profile);
  std::ranges::replace(name, '+', '.');
  return name;
}

}  // namespace pitcrew::node::mig

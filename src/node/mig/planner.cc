#include "node/mig/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/strings.h"
#include "gpu/mig_geometry.h"
#include "node/mig/profiles.h"

namespace pitcrew::node::mig {
namespace {

using gpu::MigPlacement;

// A GPU instance that is to be made, not yet placed.
struct Wanted {
  const Profile* profile = nullptr;
  std::vector<unsigned> compute;  // NVML's indices
  int free_slices = 0;
};

// Upstream's order: many slices first, then many compute slices, then the attributes; among equals
// the larger memory, which is harder to place.
bool ComesBefore(const NamedProfile& a, const NamedProfile& b) {
  const auto key = [](const NamedProfile& profile) {
    return std::tuple(profile.name.gpu_slices, profile.name.compute_slices,
                      base::Join(profile.name.attributes, ","), profile.name.memory_gb);
  };
  return key(a) > key(b);
}

std::vector<Wanted> Group(const std::vector<NamedProfile>& profiles) {
  std::vector<Wanted> instances;
  for (const auto& profile : profiles) {
    const int slices = profile.name.compute_slices;
    const auto room = std::ranges::find_if(instances, [&](const Wanted& instance) {
      return instance.profile == profile.gpu_instance && instance.free_slices >= slices;
    });
    auto& instance = room != instances.end()
                         ? *room
                         : instances.emplace_back(profile.gpu_instance, std::vector<unsigned>(),
                                                  profile.name.gpu_slices);
    instance.compute.push_back(profile.compute_instance);
    instance.free_slices -= slices;
  }
  return instances;
}

// Each instance has engines of its own, and the GPU as many as its richest profile.
bool EnginesSuffice(const std::vector<Profile>& all, const std::vector<Wanted>& instances) {
  for (std::size_t kind = 0; kind < std::tuple_size_v<decltype(Profile::engines)>; ++kind) {
    unsigned there = 0;
    unsigned needed = 0;
    for (const auto& profile : all) there = std::max(there, profile.engines[kind]);
    for (const auto& instance : instances) needed += instance.profile->engines[kind];
    if (needed > there) return false;
  }
  return true;
}

bool CountsSuffice(const Gpu& gpu, const std::vector<Wanted>& instances) {
  if (HasWrongCounts(gpu)) return true;
  return std::ranges::all_of(instances, [&](const Wanted& instance) {
    const auto used = std::ranges::count(instances, instance.profile, &Wanted::profile);
    return static_cast<std::size_t>(used) <= instance.profile->count;
  });
}

// A place for each instance, in their order; the first way found.
class Search {
 public:
  Search(const std::vector<Profile>& profiles, const std::vector<Wanted>& instances)
      : instances_(instances) {
    for (const auto& profile : profiles) {
      all_.insert(all_.end(), profile.placements.begin(), profile.placements.end());
    }
  }

  // Nothing when they do not fit beside each other.
  std::optional<std::vector<MigPlacement>> Run() {
    if (!PlaceFrom(0)) return std::nullopt;
    return placed_;
  }

 private:
  bool PlaceFrom(std::size_t next) {
    if (next == instances_.size()) return true;
    // With the same places taken, by whichever instances, the rest was seen to find none before.
    auto taken = placed_;
    std::ranges::sort(taken);
    if (failed_.contains(taken)) return false;
    for (const auto& place : Candidates(instances_[next].profile->placements)) {
      placed_.push_back(place);
      if (PlaceFrom(next + 1)) return true;
      placed_.pop_back();
    }
    failed_.insert(std::move(taken));
    return false;
  }

  // The driver's choice, then the others.
  [[nodiscard]] std::vector<MigPlacement> Candidates(
      const std::vector<MigPlacement>& possible) const {
    auto free = gpu::FreePlacements(possible, placed_);
    if (const auto chosen = gpu::ChoosePlacement(possible, placed_, all_)) {
      std::ranges::stable_partition(free, [&](const auto& place) { return place == *chosen; });
    }
    return free;
  }

  const std::vector<Wanted>& instances_;
  std::vector<MigPlacement> all_;
  std::vector<MigPlacement> placed_;
  std::set<std::vector<MigPlacement>> failed_;
};

// Nothing when the counts do not fit.
std::optional<Layout> Place(const Gpu& gpu, const std::vector<NamedProfile>& elements) {
  const auto instances = Group(elements);
  const auto& profiles = *gpu.profiles.value();
  if (!CountsSuffice(gpu, instances) || !EnginesSuffice(profiles, instances)) return std::nullopt;
  const bool places_known = std::ranges::none_of(
      instances, [](const Wanted& instance) { return instance.profile->placements.empty(); });
  std::vector<MigPlacement> places;
  if (places_known) {
    auto found = Search(profiles, instances).Run();
    if (!found) return std::nullopt;
    places = *std::move(found);
  }
  Layout layout{.mig_enabled = true, .instances = {}};
  for (std::size_t i = 0; i < instances.size(); ++i) {
    GpuInstance instance{.profile = instances[i].profile->index, .placement = {}, .compute = {}};
    if (places_known) instance.placement = places[i];
    for (const unsigned compute : instances[i].compute) {
      instance.compute.push_back({.profile = compute, .placement = {}});
    }
    layout.instances.push_back(std::move(instance));
  }
  return layout;
}

// No GPU has as many instances: a larger number is no more work.
constexpr int kMoreThanFit = 64;

struct Request {
  NamedProfile profile;
  int count = 0;
};

std::optional<Layout> PlaceAll(const Gpu& gpu, const std::vector<Request>& requests) {
  std::vector<NamedProfile> elements;
  for (const auto& request : requests) {
    const int count = std::min(request.count, kMoreThanFit);
    elements.insert(elements.end(), static_cast<std::size_t>(count), request.profile);
  }
  std::ranges::stable_sort(elements, ComesBefore);
  return Place(gpu, elements);
}

std::string Describe(const std::vector<Request>& requests) {
  std::vector<std::string> texts;
  for (const auto& request : requests) {
    if (request.count == 0) continue;
    texts.push_back(fmt::format("{} x {}", request.count, request.profile.name.Name()));
  }
  return base::Join(texts, " with ");
}

// The requests with fewer of one profile, as many as fit, for each profile.
std::string DescribeWhatFits(const Gpu& gpu, const std::vector<Request>& requests) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto fewer = requests;
    const int most = static_cast<int>(
        std::min<std::size_t>(static_cast<std::size_t>(requests[i].count - 1),
                              std::size_t{requests[i].profile.gpu_instance->count} *
                                  static_cast<std::size_t>(requests[i].profile.name.gpu_slices)));
    for (fewer[i].count = most; fewer[i].count >= 0; --fewer[i].count) {
      if (!PlaceAll(gpu, fewer)) continue;
      if (auto text = Describe(fewer); !text.empty()) texts.push_back(std::move(text));
      break;
    }
  }
  if (texts.empty()) return "its profiles are " + DescribeProfiles(gpu);
  return "what fits is " + base::Join(texts, ", or ");
}

base::Result<std::vector<Request>> Resolve(const Gpu& gpu, const ProfileCounts& counts) {
  std::vector<Request> requests;
  for (const auto& [name, count] : counts) {
    TRY_ASSIGN(auto profile, FindProfile(gpu, name));
    if (count <= 0) continue;
    const auto same = std::ranges::find_if(
        requests, [&](const Request& request) { return request.profile.name == profile.name; });
    if (same != requests.end()) {
      same->count = std::min(same->count, kMoreThanFit) + std::min(count, kMoreThanFit);
    } else {
      requests.push_back({std::move(profile), count});
    }
  }
  return requests;
}

}  // namespace

base::Result<Layout> PlanLayout(const Gpu& gpu, const ProfileCounts& counts) {
  if (!gpu.profiles.is_present()) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "ProfilesUnknown",
        fmt::format("{} does not tell its MIG profiles now{}", gpu.Title(),
                    gpu.profiles.is_unknown() ? ": " + gpu.profiles.error()->message : "")});
  }
  TRY_ASSIGN(const auto requests, Resolve(gpu, counts));
  if (auto layout = PlaceAll(gpu, requests)) return *std::move(layout);
  return base::Fail(base::Invalid(
      "DoesNotFit", fmt::format("{} has no room for {}; {}", gpu.Title(), Describe(requests),
                                DescribeWhatFits(gpu, requests))));
}

base::Result<ProfileCounts> CanonicalCounts(const Gpu& gpu, const ProfileCounts& counts) {
  ProfileCounts canonical;
  TRY_ASSIGN(const auto requests, Resolve(gpu, counts));
  for (const auto& request : requests) canonical[request.profile.name.Name()] = request.count;
  return canonical;
}

}  // namespace pitcrew::node::mig

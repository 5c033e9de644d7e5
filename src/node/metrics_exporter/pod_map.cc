#include "node/metrics_exporter/pod_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/ascii.h"
#include "base/strings.h"

namespace pitcrew::node::metrics_exporter {
namespace {

constexpr std::string_view kShareMark = "::";
constexpr std::string_view kVirtualMark = "/vgpu";
constexpr std::string_view kUtilization = "DCGM_FI_DEV_GPU_UTIL";
constexpr std::string_view kMemoryUsed = "DCGM_FI_DEV_FB_USED";

// nvidia<N>/gi<M>, perhaps with /vgpu<K> behind it: "N-M".
std::optional<std::string> KeyOfPath(std::string_view id) {
  constexpr std::string_view kDevice = "nvidia";
  constexpr std::string_view kInstance = "/gi";
  if (!id.starts_with(kDevice)) return std::nullopt;
  id.remove_prefix(kDevice.size());
  const auto slash = id.find(kInstance);
  if (slash == std::string_view::npos) return std::nullopt;
  const auto gpu = id.substr(0, slash);
  auto instance = id.substr(slash + kInstance.size());
  if (const auto share = instance.find(kVirtualMark); share != std::string_view::npos) {
    if (!base::IsDigits(instance.substr(share + kVirtualMark.size()))) return std::nullopt;
    instance = instance.substr(0, share);
  }
  if (!base::IsDigits(gpu) || !base::IsDigits(instance)) return std::nullopt;
  return fmt::format("{}-{}", gpu, instance);
}

// MIG-<uuid>, or MIG-GPU-<uuid>/<gi>/<ci> of old drivers.
std::optional<std::string> KeyOfMig(std::string_view id, const Round& round) {
  if (const auto known = round.mig_devices.find(id); known != round.mig_devices.end()) {
    return known->second;
  }
  constexpr std::size_t kPrefix = 4;  // "MIG-"
  const auto parts = base::Split(id.substr(kPrefix), '/');
  constexpr std::size_t kOldParts = 3;
  if (parts.size() != kOldParts || !base::IsDigits(parts[1])) return std::nullopt;
  const auto gpu = std::ranges::find(round.gpus, parts[0], &GpuState::uuid);
  if (gpu == round.gpus.end()) return std::nullopt;
  return fmt::format("{}-{}", gpu->number, parts[1]);
}

// One container's hold on a device.
struct Hold {
  const rpc::PodDevices* pod = nullptr;
  std::string container;
  std::string replica;
  // Of a device that is claimed.
  const rpc::ClaimedDevice* claim = nullptr;
  const PublishedDevice* published = nullptr;
};
using Holds = std::map<std::string, std::vector<Hold>, std::less<>>;

std::string KeyOfEntity(const Entity& entity, const PodMapOptions& options) {
  if (!entity.profile.empty()) return entity.InstanceKey();
  return options.id_type == GpuIdType::kUuid ? entity.uuid : entity.device;
}

// Empty where the round has no series for it.
std::string KeyOfPublished(const PublishedDevice& device, const Round& round,
                           const PodMapOptions& options) {
  if (const auto mig = round.mig_devices.find(device.uuid); mig != round.mig_devices.end()) {
    const bool has_series = std::ranges::any_of(round.entities, [&](const Entity& entity) {
      return !entity.profile.empty() && entity.InstanceKey() == mig->second;
    });
    if (has_series) return mig->second;
  }
  const auto& uuid = device.parent_uuid.empty() ? device.uuid : device.parent_uuid;
  const auto gpu = std::ranges::find_if(round.entities, [&](const Entity& entity) {
    return entity.group == Group::kGpu && entity.profile.empty() && entity.uuid == uuid;
  });
  return gpu == round.entities.end() ? "" : KeyOfEntity(*gpu, options);
}

// Pods hold a device once, however many ways they have to it. With replicas told apart, two of them
// in one container are two.
using SeenHolds =
    std::set<std::tuple<std::string, std::string, std::string, std::string, std::string>>;

void CollectClaims(const Round& round, const rpc::PodDevices& pod,
                   const PublishedDevices& published, const PodMapOptions& options, SeenHolds& seen,
                   Holds& holds) {
  for (const auto& claim : pod.claims) {
    if (claim.driver != kClaimDriver) continue;
    const auto device = published.find({claim.pool, claim.device});
    if (device == published.end()) continue;
    const auto key = KeyOfPublished(device->second, round, options);
    if (key.empty()) continue;
    if (!seen.insert({key, pod.namespace_name, pod.pod_name, claim.container, ""}).second) continue;
    holds[key].push_back({&pod, claim.container, "", &claim, &device->second});
  }
}

Holds CollectHolds(const Round& round, const std::vector<rpc::PodDevices>& pods,
                   const PodMapOptions& options, const PublishedDevices& published) {
  Holds holds;
  SeenHolds seen;
  for (const auto& pod : pods) {
    for (const auto& held : pod.devices) {
      if (!CountsAsGpu(held.resource, options)) continue;
      for (const auto& id : held.ids) {
        const auto replica = options.virtual_gpus ? ReplicaOf(id) : std::string();
        for (auto& key : KeysOf(id, round)) {
          if (!seen.insert({key, pod.namespace_name, pod.pod_name, held.container, replica})
                   .second) {
            continue;
          }
          holds[std::move(key)].push_back({&pod, held.container, replica});
        }
      }
    }
    CollectClaims(round, pod, published, options, seen, holds);
  }
  return holds;
}

// Sums over the processes of a pod, as texts of the two metrics that can be told apart.
struct PodUse {
  std::int64_t sm_percent = 0;
  std::uint64_t memory = 0;
};
std::map<std::string, PodUse> UseOfPods(const Entity& entity,
                                        const std::map<unsigned, std::string>& uid_of_process) {
  std::map<std::string, PodUse> uses;
  for (const auto& process : entity.processes) {
    const auto uid = uid_of_process.find(process.pid);
    if (uid == uid_of_process.end()) continue;
    auto& use = uses[uid->second];
    use.sm_percent += process.sm_percent.value_or(0);
    use.memory += process.memory;
  }
  return uses;
}

class OwnerMaker {
 public:
  OwnerMaker(const PodFactsByName& facts, const PodMapOptions& options)
      : facts_(facts), options_(options) {}

  [[nodiscard]] Owner Make(const Hold& hold) const {
    const bool old = options_.old_namespace;
    Owner owner;
    owner.attributes = {{old ? "container_name" : "container", hold.container},
                        {old ? "pod_namespace" : "namespace", hold.pod->namespace_name},
                        {old ? "pod_name" : "pod", hold.pod->pod_name}};
    const auto* facts = FactsOf(hold);
    if (facts != nullptr) {
      owner.labels = facts->labels;
      if (options_.pod_uids) owner.attributes.emplace_back("pod_uid", facts->uid);
    }
    if (!hold.replica.empty()) owner.attributes.emplace_back("vgpu", hold.replica);
    if (hold.claim != nullptr) AddClaim(*hold.claim, *hold.published, owner.attributes);
    return owner;
  }

  // The pod's own part of what is measured by process.
  void AddUse(const Entity& entity, const std::map<std::string, PodUse>& uses, const Hold& hold,
              Owner& owner) const {
    const auto* facts = FactsOf(hold);
    if (facts == nullptr) return;
    if (!options_.pod_uids) owner.attributes.emplace_back("pod_uid", facts->uid);
    const auto found = uses.find(facts->uid);
    const PodUse use = found == uses.end() ? PodUse() : found->second;
    constexpr std::uint64_t kMebibyte = 1048576;
    owner.values.emplace(kMemoryUsed, std::to_string(use.memory / kMebibyte));
    if (entity.profile.empty()) {
      owner.values.emplace(kUtilization, std::to_string(use.sm_percent));
    }
  }

 private:
  static void AddClaim(const rpc::ClaimedDevice& claim, const PublishedDevice& device,
                       Attributes& attributes) {
    attributes.emplace_back("dra_claim_name", claim.claim_name);
    attributes.emplace_back("dra_claim_namespace", claim.claim_namespace);
    attributes.emplace_back("dra_driver_name", claim.driver);
    attributes.emplace_back("dra_pool_name", claim.pool);
    attributes.emplace_back("dra_device_name", claim.device);
    if (device.parent_uuid.empty()) return;
    attributes.emplace_back("dra_mig_profile", device.profile);
    attributes.emplace_back("dra_mig_device_uuid", device.uuid);
  }

  [[nodiscard]] const PodFacts* FactsOf(const Hold& hold) const {
    const auto found =
        facts_.find(fmt::format("{}/{}", hold.pod->namespace_name, hold.pod->pod_name));
    return found == facts_.end() ? nullptr : &found->second;
  }

  const PodFactsByName& facts_;
  const PodMapOptions& options_;
};

}  // namespace

bool CountsAsGpu(std::string_view resource, const PodMapOptions& options) {
  return resource == "nvidia.com/gpu" || resource.starts_with("nvidia.com/mig-") ||
         std::ranges::find(options.resource_names, resource) != options.resource_names.end();
}

std::string ReplicaOf(std::string_view id) {
  auto mark = id.find(kShareMark);
  std::size_t length = kShareMark.size();
  if (mark == std::string_view::npos) {
    mark = id.find(kVirtualMark);
    length = kVirtualMark.size();
  }
  if (mark == std::string_view::npos) return "";
  return std::string(id.substr(mark + length));
}

std::string_view WithoutReplica(std::string_view id) {
  const auto end = std::min(id.find(kShareMark), id.find(kVirtualMark));
  return id.substr(0, end);
}

std::vector<std::string> KeysOf(std::string_view id, const Round& round) {
  std::vector<std::string> keys = {std::string(id)};
  const auto add = [&](std::string key) {
    if (!key.empty() && std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
  };
  if (id.starts_with("MIG-")) {
    const auto whole = id.substr(0, id.find(kShareMark));
    if (auto key = KeyOfMig(whole, round)) add(*std::move(key));
    constexpr std::size_t kPrefix = 4;
    add(std::string(whole.substr(kPrefix)));
  } else if (auto key = KeyOfPath(id)) {
    add(*std::move(key));
  } else {
    add(std::string(WithoutReplica(id)));
  }
  return keys;
}

OwnersOf MapOwners(const Round& round, const std::vector<rpc::PodDevices>& pods,
                   const PodFactsByName& facts,
                   const std::map<unsigned, std::string>& uid_of_process,
                   const PodMapOptions& options, const PublishedDevices& published) {
  const auto holds = CollectHolds(round, pods, options, published);
  const OwnerMaker maker(facts, options);
  OwnersOf owners(round.entities.size());
  for (std::size_t i = 0; i < round.entities.size(); ++i) {
    const auto& entity = round.entities[i];
    const auto found = holds.find(KeyOfEntity(entity, options));
    if (found == holds.end()) continue;
    const auto uses = options.virtual_gpus && entity.group == Group::kGpu
                          ? UseOfPods(entity, uid_of_process)
                          : std::map<std::string, PodUse>();
    for (const auto& hold : found->second) {
      Owner owner = maker.Make(hold);
      if (options.virtual_gpus) maker.AddUse(entity, uses, hold, owner);
      owners[i].of.push_back(std::move(owner));
    }
    for (const auto metric : {kUtilization, kMemoryUsed}) {
      const bool by_pod = std::ranges::any_of(
          owners[i].of, [&](const Owner& owner) { return owner.values.contains(metric); });
      if (by_pod) owners[i].also_device.emplace_back(metric);
    }
  }
  return owners;
}

std::string PodUidOfCgroups(std::string_view cgroups) {
  constexpr std::string_view kMark = "pod";
  constexpr std::size_t kShortest = 32;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  for (const auto& line : base::Split(cgroups, '\n')) {
    for (auto at = line.find(kMark); at != std::string::npos; at = line.find(kMark, at + 1)) {
      std::string uid;
      for (auto i = at + kMark.size(); i < line.size() && fits(line[i]); ++i) uid += line[i];
      if (uid.size() >= kShortest) return base::ReplaceAll(std::move(uid), "_", "-");
    }
  }
  return "";
}

}  // namespace pitcrew::node::metrics_exporter

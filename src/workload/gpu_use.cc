#include "workload/gpu_use.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "api/labels.h"
#include "base/log.h"

namespace pitcrew::workload {
namespace {

using codec::Json;

constexpr std::string_view kGpuDriver = "gpu.nvidia.com";
// Kubernetes 1.34 has v1; servers before it only the older ones.
constexpr std::array kClaimVersions = {
    kube::ResourceKind{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"},
    kube::ResourceKind{"resource.k8s.io", "v1beta2", "resourceclaims", "ResourceClaim"},
    kube::ResourceKind{"resource.k8s.io", "v1beta1", "resourceclaims", "ResourceClaim"}};

// The items of a list below `object`; empty when there is none.
const Json& ListAt(const Json& object, std::initializer_list<std::string_view> path) {
  static const Json kEmpty = Json::array();
  const Json* list = codec::Find(object, path);
  return list != nullptr && list->is_array() ? *list : kEmpty;
}

using IsMeant = std::function<bool(std::string_view)>;

bool NamesOne(const Json* resources, const IsMeant& is_meant) {
  if (resources == nullptr || !resources->is_object()) return false;
  return std::ranges::any_of(resources->items(),
                             [&](const auto& entry) { return is_meant(entry.key()); });
}

base::Result<Json> ReadClaim(kube::Client& client, const kube::ObjectKey& key,
                             const io::StopToken& stop) {
  base::Result<Json> claim = base::Fail(base::Error{});
  for (const auto& kind : kClaimVersions) {
    claim = client.Get(kind, key, stop);
    if (claim || claim.error().code != base::Code::kUnsupported) return claim;
  }
  return claim;
}

}  // namespace

bool HasEnded(const Json& pod) {
  const auto phase = codec::FindString(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

bool AsksFor(const Json& pod, const IsMeant& is_meant) {
  for (const auto* list : {"containers", "initContainers"}) {
    for (const auto& container : ListAt(pod, {"spec", list})) {
      if (NamesOne(codec::Find(container, {"resources", "limits"}), is_meant) ||
          NamesOne(codec::Find(container, {"resources", "requests"}), is_meant)) {
        return true;
      }
    }
  }
  return false;
}

bool AsksForGpu(const Json& pod) {
  return AsksFor(pod, [](std::string_view resource) {
    return resource.starts_with(api::kGpuResource) || resource.starts_with(api::kMigResourcePrefix);
  });
}

std::vector<std::string> ClaimNames(const Json& pod) {
  std::map<std::string, std::string> made;
  for (const auto& status : ListAt(pod, {"status", "resourceClaimStatuses"})) {
    made[codec::FindString(status, {"name"})] = codec::FindString(status, {"resourceClaimName"});
  }
  std::vector<std::string> names;
  for (const auto& claim : ListAt(pod, {"spec", "resourceClaims"})) {
    auto name = codec::FindString(claim, {"resourceClaimName"});
    if (name.empty()) name = made[codec::FindString(claim, {"name"})];
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

bool HoldsGpu(const Json& claim) {
  const auto& results = ListAt(claim, {"status", "allocation", "devices", "results"});
  return std::ranges::any_of(results, [](const Json& result) {
    const Json* admin = codec::Find(result, {"adminAccess"});
    return codec::FindString(result, {"driver"}) == kGpuDriver &&
           !(admin != nullptr && *admin == true);
  });
}

bool HoldsGpuClaim(kube::Client& client, const Json& pod, const io::StopToken& stop) {
  if (HasEnded(pod)) return false;
  const auto key = kube::KeyOf(pod);
  return std::ranges::any_of(ClaimNames(pod), [&](const std::string& name) {
    const auto claim = ReadClaim(client, {key.namespace_name, name}, stop);
    if (claim) return HoldsGpu(*claim);
    if (claim.error().code == base::Code::kNotFound) return false;
    base::LogWarning("A claim cannot be read; its pod counts as one that uses a GPU", claim.error(),
                     {{"pod", key.ToString()}, {"claim", name}});
    return true;
  });
}

bool UsesGpu(kube::Client& client, const Json& pod, const io::StopToken& stop) {
  if (HasEnded(pod)) return false;
  return AsksForGpu(pod) || HoldsGpuClaim(client, pod, stop);
}

}  // namespace pitcrew::workload

#include "workload/gpu_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "api/labels.h"
#include "base/log.h"
#include "codec/json_items.h"

namespace pitcrew::workload {
namespace {

using codec::ItemsAt;
using codec::Json;

constexpr std::string_view kGpuDriver = "gpu.nvidia.com";
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

// That the server could not be asked says nothing about the claim.
bool MayPass(const base::Error& error) {
  switch (error.code) {
    case base::Code::kUnavailable:
    case base::Code::kTooMany:
    case base::Code::kTimeout:
    case base::Code::kCancelled:
      return true;
    default:
      return false;
  }
}

ClaimReader ReaderOf(kube::Client& client, const io::StopToken& stop) {
  return [&client, &stop](const kube::ObjectKey& key) {
    return base::Observed<Json>::From(ReadClaim(client, key, stop));
  };
}

}  // namespace

bool HasEnded(const Json& pod) {
  const auto phase = codec::FindString(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

bool IsReady(const Json& pod) {
  return std::ranges::any_of(ItemsAt(pod, {"status", "conditions"}), [](const Json& condition) {
    return codec::FindString(condition, {"type"}) == "Ready" &&
           codec::FindString(condition, {"status"}) == "True";
  });
}

bool AsksFor(const Json& pod, const IsMeant& is_meant) {
  for (const auto* list : {"containers", "initContainers"}) {
    for (const auto& container : ItemsAt(pod, {"spec", list})) {
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
  for (const auto& status : ItemsAt(pod, {"status", "resourceClaimStatuses"})) {
    made[codec::FindString(status, {"name"})] = codec::FindString(status, {"resourceClaimName"});
  }
  std::vector<std::string> names;
  for (const auto& claim : ItemsAt(pod, {"spec", "resourceClaims"})) {
    auto name = codec::FindString(claim, {"resourceClaimName"});
    if (name.empty()) name = made[codec::FindString(claim, {"name"})];
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

bool HoldsGpu(const Json& claim) {
  const auto& results = ItemsAt(claim, {"status", "allocation", "devices", "results"});
  return std::ranges::any_of(results, [](const Json& result) {
    const Json* admin = codec::Find(result, {"adminAccess"});
    return codec::FindString(result, {"driver"}) == kGpuDriver &&
           !(admin != nullptr && *admin == true);
  });
}

namespace {

bool HoldsGpuClaim(const Json& pod, const ClaimReader& read) {
  if (HasEnded(pod)) return false;
  const auto key = kube::KeyOf(pod);
  return std::ranges::any_of(ClaimNames(pod), [&](const std::string& name) {
    const auto claim = read({key.namespace_name, name});
    if (!claim.is_unknown()) return claim.is_present() && HoldsGpu(*claim.value());
    base::LogWarning("A claim cannot be read; its pod counts as one that uses a GPU",
                     *claim.error(), {{"pod", key.ToString()}, {"claim", name}});
    return true;
  });
}

}  // namespace

bool UsesGpu(const Json& pod, const ClaimReader& read) {
  return !HasEnded(pod) && (AsksForGpu(pod) || HoldsGpuClaim(pod, read));
}

base::Result<bool> CheckGpuClaim(const Json& pod, const ClaimReader& read) {
  std::optional<base::Error> unread;
  const bool holds = HoldsGpuClaim(pod, [&](const kube::ObjectKey& key) {
    auto claim = read(key);
    if (!claim.is_unknown() || !MayPass(*claim.error())) return claim;
    unread = *claim.error();
    return base::Observed<Json>::Missing();  // for now: another one may settle it
  });
  if (holds || !unread) return holds;
  if (unread->code == base::Code::kCancelled) return base::Fail(*unread);
  return base::Fail(
      base::Unavailable("ClaimNotRead", fmt::format("whether pod {} uses a GPU cannot be told: {}",
                                                    kube::KeyOf(pod).ToString(), unread->message)));
}

base::Result<bool> CheckGpuClaim(kube::Client& client, const Json& pod, const io::StopToken& stop) {
  return CheckGpuClaim(pod, ReaderOf(client, stop));
}

base::Result<bool> CheckGpuUse(kube::Client& client, const Json& pod, const io::StopToken& stop) {
  if (!HasEnded(pod) && AsksForGpu(pod)) return true;
  return CheckGpuClaim(client, pod, stop);
}

}  // namespace pitcrew::workload

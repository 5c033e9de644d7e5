#include "node/mig_manager/gpu_holders.h"

#include <algorithm>

#include "api/labels.h"
#include "kube/resource.h"
#include "workload/gpu_use.h"

namespace pitcrew::node::mig_manager {
namespace {

using codec::Json;

bool IsGpuResource(std::string_view name) {
  return name.starts_with(api::kGpuResource) || name.starts_with(api::kMigResourcePrefix);
}

const rpc::PodDevices* DevicesOf(const Json& pod, const std::vector<rpc::PodDevices>& devices) {
  const auto key = kube::KeyOf(pod);
  const auto found = std::ranges::find_if(devices, [&](const rpc::PodDevices& one) {
    return one.namespace_name == key.namespace_name && one.pod_name == key.name;
  });
  return found == devices.end() ? nullptr : &*found;
}

bool IsChanging(std::string_view device_id, const HolderFacts& facts) {
  const auto gpu = facts.gpu_of_device.find(WithoutReplica(device_id));
  return gpu == facts.gpu_of_device.end() || facts.changing.contains(gpu->second);
}

bool Holds(const Json& pod, const HolderFacts& facts) {
  if (workload::HasEnded(pod)) return false;
  if (facts.claims_gpu(pod)) return true;
  if (!workload::AsksForGpu(pod)) return false;
  if (!facts.devices) return true;
  const auto* held = DevicesOf(pod, *facts.devices);
  if (held == nullptr) return true;
  bool any = false;
  for (const auto& devices : held->devices) {
    if (!IsGpuResource(devices.resource)) continue;
    any = true;
    if (std::ranges::any_of(devices.ids, [&](const auto& id) { return IsChanging(id, facts); })) {
      return true;
    }
  }
  return !any;  // its devices are still to be chosen
}

}  // namespace

std::string_view WithoutReplica(std::string_view device_id) {
  return device_id.substr(0, device_id.find("::"));
}

std::vector<const Json*> FindHolders(const std::vector<const Json*>& pods,
                                     const HolderFacts& facts) {
  std::vector<const Json*> holders;
  std::ranges::copy_if(pods, std::back_inserter(holders),
                       [&](const Json* pod) { return Holds(*pod, facts); });
  return holders;
}

const Json* FindUnlisted(const std::vector<const Json*>& pods, const HolderFacts& facts) {
  if (!facts.devices) return nullptr;
  const auto found = std::ranges::find_if(pods, [&](const Json* pod) {
    return !workload::HasEnded(*pod) && workload::AsksForGpu(*pod) &&
           !codec::FindString(*pod, {"status", "startTime"}).empty() &&
           DevicesOf(*pod, *facts.devices) == nullptr;
  });
  return found == pods.end() ? nullptr : *found;
}

}  // namespace pitcrew::node::mig_manager

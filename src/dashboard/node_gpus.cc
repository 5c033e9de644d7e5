#include "dashboard/node_gpus.h"

#include <algorithm>
#include <string_view>

#include "api/labels.h"
#include "base/strings.h"
#include "gpu/mig_profile.h"

namespace pitcrew::dashboard {
namespace {

constexpr std::string_view kMigResources = "nvidia.com/mig-";
constexpr std::string_view kSharedSuffix = ".shared";  // of renamed resources

std::int64_t NumberOf(const fleet::Node& node, const std::string& label) {
  return base::ParseInteger(node.Label(label)).value_or(0);
}

// A resource's name has '.' for '+': "1g.10gb.me" is 1g.10gb+me.
std::string ProfileOfSuffix(std::string suffix) {
  const auto attribute = suffix.find("gb.");
  if (attribute != std::string::npos) suffix[attribute + 2] = '+';
  return suffix;
}

int SlicesOf(const std::string& profile) {
  const auto parsed = gpu::MigProfile::Parse(profile);
  return parsed ? parsed->gpu_slices : 0;
}

// Models that are divided into four; all others into seven (mig-manager.md section 12.2).
int SlicesOfModel(std::string_view product) {
  for (const std::string_view of_four : {"A30", "RTX-PRO-6000"}) {
    if (product.find(of_four) != std::string_view::npos) return 4;
  }
  return 7;
}

std::int64_t Shares(const fleet::Node& node, const std::string& resource) {
  std::string labelled = resource;
  if (labelled.ends_with(kSharedSuffix)) labelled.resize(labelled.size() - kSharedSuffix.size());
  return std::max<std::int64_t>(1, NumberOf(node, labelled + ".replicas"));
}

GpuGroup GroupOf(const fleet::Node& node, const std::string& resource, std::int64_t capacity) {
  const auto offered = node.allocatable.find(resource);
  const std::int64_t shares = Shares(node, resource);
  GpuGroup group{
      .resource = resource,
      .profile = "",
      .slices = 0,
      .count = (capacity + shares - 1) / shares,
      .offered = offered == node.allocatable.end() ? 0 : (offered->second + shares - 1) / shares};
  if (resource.starts_with(kMigResources)) {
    std::string suffix = resource.substr(kMigResources.size());
    if (suffix.ends_with(kSharedSuffix)) suffix.resize(suffix.size() - kSharedSuffix.size());
    group.profile = ProfileOfSuffix(std::move(suffix));
    group.slices = SlicesOf(group.profile);
  }
  return group;
}

// MIG strategy "single": instances are offered as nvidia.com/gpu, and the label of the product says
// which ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", perhaps with -SHARED).
std::string SingleProfile(std::string_view product) {
  constexpr std::string_view kMark = "-MIG-";
  const auto mark = product.find(kMark);
  if (mark == std::string_view::npos) return "";
  std::string_view profile = product.substr(mark + kMark.size());
  constexpr std::string_view kShared = "-SHARED";
  if (profile.ends_with(kShared)) profile.remove_suffix(kShared.size());
  return ProfileOfSuffix(std::string(profile));
}

}  // namespace

NodeGpus GpusOf(const fleet::Node& node) {
  const std::string gpu(api::kGpuResource);
  NodeGpus gpus;
  gpus.product = node.Label(api::kGpuProduct);
  gpus.memory_mib = NumberOf(node, gpu + ".memory");
  gpus.replicas = std::max<std::int64_t>(1, NumberOf(node, gpu + ".replicas"));
  const auto strategy = node.Label(gpu + ".sharing-strategy");
  if (strategy != "none") gpus.sharing = strategy;
  const std::string single = SingleProfile(gpus.product);
  const std::int64_t labelled = NumberOf(node, gpu + ".count");
  // With "single" that label counts instances.
  if (labelled > 0 && single.empty()) gpus.count = labelled;
  for (const auto& [resource, capacity] : node.capacity) {
    // What was offered once and is not any more stays in the status as 0.
    if (capacity == 0) continue;
    gpus.groups.push_back(GroupOf(node, resource, capacity));
    GpuGroup& group = gpus.groups.back();
    if (!single.empty() && group.profile.empty()) {
      group.profile = single;
      group.slices = SlicesOf(single);
    }
  }
  if (gpus.groups.empty() && labelled > 0) {
    gpus.groups.push_back(
        {.resource = gpu, .profile = single, .slices = SlicesOf(single), .count = labelled});
  }
  std::ranges::stable_sort(gpus.groups, std::ranges::greater(), [](const GpuGroup& group) {
    return group.profile.empty() ? 99 : group.slices;
  });
  const bool divided = std::ranges::any_of(
      gpus.groups, [](const GpuGroup& group) { return !group.profile.empty(); });
  if (divided) gpus.slices_each = SlicesOfModel(gpus.product);
  return gpus;
}

codec::Json ToJson(const NodeGpus& gpus) {
  codec::Json groups = codec::Json::array();
  for (const GpuGroup& group : gpus.groups) {
    codec::Json entry = {
        {"resource", group.resource}, {"count", group.count}, {"offered", group.offered}};
    if (!group.profile.empty()) {
      entry["profile"] = group.profile;
      entry["slices"] = group.slices;
    }
    groups.push_back(std::move(entry));
  }
  codec::Json json = {{"groups", std::move(groups)}};
  if (gpus.count) json["count"] = *gpus.count;
  if (gpus.memory_mib > 0) json["memoryMiB"] = gpus.memory_mib;
  if (!gpus.sharing.empty()) {
    json["sharing"] = gpus.sharing;
    json["replicas"] = gpus.replicas;
  }
  if (gpus.slices_each > 0) json["slicesEach"] = gpus.slices_each;
  return json;
}

}  // namespace pitcrew::dashboard

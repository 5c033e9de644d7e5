#include "node/device_plugin/preferred_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "node/device_plugin/partition.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;

constexpr int kPerNvlink = 100;
constexpr unsigned kMostNvlinks = 18;

int NearnessScore(gpu::TopologyLevel level) {
  switch (level) {
    case gpu::TopologyLevel::kInternal:
      return 60;
    case gpu::TopologyLevel::kSingle:
      return 50;
    case gpu::TopologyLevel::kMultiple:
      return 40;
    case gpu::TopologyLevel::kHostBridge:
      return 30;
    case gpu::TopologyLevel::kNode:
      return 20;
    case gpu::TopologyLevel::kSystem:
      break;
  }
  return 10;
}

using ById = std::unordered_map<std::string, const OfferedDevice*>;

// The devices of `ids`, in their order. kInvalid for an unknown one.
Result<std::vector<const OfferedDevice*>> FindOffered(const ById& by_id,
                                                      const std::vector<std::string>& ids) {
  std::vector<const OfferedDevice*> known;
  for (const auto& id : ids) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) {
      return base::Fail(base::Invalid("UnknownDevice", fmt::format("there is no device {}", id)));
    }
    known.push_back(found->second);
  }
  return known;
}

// The devices of those IDs that there are.
std::vector<const OfferedDevice*> OnlyKnown(const ById& by_id,
                                            const std::vector<std::string>& ids) {
  std::vector<const OfferedDevice*> known;
  for (const auto& id : ids) {
    const auto found = by_id.find(id);
    if (found != by_id.end()) known.push_back(found->second);
  }
  return known;
}

// Section 15.3.
std::vector<std::string> Align(const std::vector<const OfferedDevice*>& available,
                               const std::vector<const OfferedDevice*>& required, int size,
                               const LinkScores& scores) {
  const auto count = available.size();
  if (size <= 0 || count < static_cast<std::size_t>(size) ||
      required.size() > static_cast<std::size_t>(size) || required.size() > count) {
    return {};
  }
  PartitionProblem problem{.size = static_cast<std::size_t>(size), .scores = {}, .required = {}};
  problem.scores.assign(count, std::vector<int>(count, 0));
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      const int score = scores.Between(available[a]->index, available[b]->index);
      problem.scores[a][b] = problem.scores[b][a] = score;
    }
  }
  for (const auto* device : required) {
    const auto found = std::ranges::find(available, device);
    if (found == available.end()) return {};
    problem.required.push_back(static_cast<std::size_t>(found - available.begin()));
  }
  std::vector<std::string> ids;
  for (const auto member : BestSet(problem)) ids.push_back(available[member]->id);
  return ids;
}

// What one GPU has of a shared resource.
struct Share {
  int total = 0;      // devices of the resource
  int available = 0;  // candidates that are left
  int picked = 0;     // in this request
  [[nodiscard]] int allocated() const { return total - available; }
};

// Section 15.2: unlike whole GPUs, unknown IDs are passed over, and required ones are given back as
// they came.
Result<std::vector<std::string>> Spread(const std::vector<OfferedDevice>& devices,
                                        std::vector<const OfferedDevice*> candidates,
                                        const std::vector<const OfferedDevice*>& required,
                                        const rpc::PreferredRequest& request,
                                        SharedAllocation policy) {
  std::map<std::string, Share> shares;
  for (const auto& device : devices) ++shares[device.gpu_uuid + device.uuid].total;
  std::erase_if(candidates, [&](const auto* candidate) {
    return std::ranges::find(required, candidate) != required.end();
  });
  const auto share_of = [&](const OfferedDevice* device) -> Share& {
    return shares[device->gpu_uuid + device->uuid];
  };
  for (const auto* candidate : candidates) ++share_of(candidate).available;

  std::vector<std::string> chosen = request.must_include;
  const int needed = request.size - static_cast<int>(chosen.size());
  if (needed > static_cast<int>(candidates.size())) {
    return base::Fail(base::Invalid("TooFewDevices",
                                    fmt::format("{} devices are wanted and only {} are available",
                                                request.size, candidates.size() + chosen.size())));
  }
  for (int i = 0; i < needed; ++i) {
    const auto best =
        std::ranges::min_element(candidates, [&](const OfferedDevice* a, const OfferedDevice* b) {
          const Share& of_a = share_of(a);
          const Share& of_b = share_of(b);
          if (of_a.allocated() != of_b.allocated()) {
            return policy == SharedAllocation::kPacked ? of_a.allocated() > of_b.allocated()
                                                       : of_a.allocated() < of_b.allocated();
          }
          return of_a.picked < of_b.picked;
        });
    Share& share = share_of(*best);
    --share.available;
    ++share.picked;
    chosen.push_back((*best)->id);
    candidates.erase(best);
  }
  return chosen;
}

}  // namespace

LinkScores::LinkScores(const gpu::Topology& topology) {
  for (const auto& connection : topology.connections) {
    const auto a = std::to_string(connection.a);
    const auto b = std::to_string(connection.b);
    scores_[{a, b}] = NearnessScore(connection.level) +
                      kPerNvlink * static_cast<int>(std::min(connection.nvlinks, kMostNvlinks));
  }
}

int LinkScores::Between(const std::string& index, const std::string& other) const {
  const auto found = scores_.find({index, other});
  return found == scores_.end() ? 0 : found->second;
}

Result<std::vector<std::string>> Prefer(const std::vector<OfferedDevice>& devices,
                                        const rpc::PreferredRequest& request,
                                        const LinkScores& scores, SharedAllocation policy) {
  ById by_id;
  for (const auto& device : devices) by_id[device.id] = &device;
  const bool whole = std::ranges::none_of(
      devices, [](const OfferedDevice& device) { return device.IsMig() || device.IsReplica(); });
  if (whole) {
    TRY_ASSIGN(const auto available, FindOffered(by_id, request.available));
    TRY_ASSIGN(const auto required, FindOffered(by_id, request.must_include));
    return Align(available, required, request.size, scores);
  }
  auto available = OnlyKnown(by_id, request.available);
  // In the order of the devices, whatever order the kubelet's set came in.
  std::ranges::sort(available);
  return Spread(devices, std::move(available), OnlyKnown(by_id, request.must_include), request,
                policy);
}

}  // namespace pitcrew::node::device_plugin

// What GPUs can do with each other, and how their NVLinks are.
#include <algorithm>
#include <span>

#include "gpu/inventory.h"
#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/links.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;
using pitcrew::gpu::TopologyLevel;

namespace {

// nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t.
enum P2pCapability : unsigned { kRead = 0, kWrite = 1, kNvLink = 2, kAtomics = 3, kPci = 4 };
constexpr unsigned kP2pOk = 0;
constexpr unsigned kP2pNotSupported = 5;

// Over a link of their own, or through a switch that both are on.
bool AreLinked(const NodeState& node, std::uint32_t a, std::uint32_t b) {
  bool to_switch = false;
  for (std::uint32_t link = 0; link < node.gpus[a].link_count; ++link) {
    const LinkEnd end = FarEnd(node, a, link);
    to_switch = to_switch || end.kind == LinkEnd::Kind::kSwitch;
    if (end.kind == LinkEnd::Kind::kGpu && end.address.domain == node.gpus[b].pci_domain &&
        end.address.bus == node.gpus[b].pci_bus && end.address.device == node.gpus[b].pci_device) {
      return true;
    }
  }
  if (!to_switch) return false;
  for (std::uint32_t link = 0; link < node.gpus[b].link_count; ++link) {
    if (FarEnd(node, b, link).kind == LinkEnd::Kind::kSwitch) return true;
  }
  return false;
}

Return ResolveLink(Device device, unsigned link, Target& target) {
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->link_count == 0) return kNotSupported;  // whatever the number
  NVML_REQUIRE(link < kMaxNvLinks);
  return link < target.gpu->link_count ? kSuccess : kNotSupported;
}

}  // namespace

NVML_API Return nvmlDeviceGetP2PStatus(Device first, Device second, unsigned capability,
                                       unsigned* status) {
  Target a;
  Target b;
  NVML_TRY(ResolveGpu(first, a));
  NVML_TRY(ResolveGpu(second, b));
  NVML_REQUIRE(capability <= kPci && status != nullptr);
  const bool same = a.handle->gpu == b.handle->gpu;
  const bool linked = same || AreLinked(*a.node, a.handle->gpu, b.handle->gpu);
  // No peer reaches into a GPU in MIG mode; atomics and NVLink need a link.
  const bool mig = a.gpu->mig_current != 0 || b.gpu->mig_current != 0;
  const bool needs_link = capability == kNvLink || capability == kAtomics;
  *status = mig || (needs_link && !linked) ? kP2pNotSupported : kP2pOk;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetTopologyNearestGpus(Device device, unsigned level, unsigned* count,
                                                 Device* devices) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr && level <= static_cast<unsigned>(TopologyLevel::kSystem) &&
               level % 10 == 0);
  const unsigned room = *count;
  NVML_REQUIRE(room == 0 || devices != nullptr);
  unsigned found = 0;
  for (const auto position : Session::Get().visibility().gpus) {
    if (position == target.handle->gpu) continue;
    const auto ancestor = CommonAncestor(*target.node, target.handle->gpu, position);
    if (static_cast<unsigned>(ancestor) != level) continue;
    if (found < room) {
      devices[found] = Session::Get().HandleFor({Handle::Kind::kGpu, position, 0, 0});
    }
    ++found;
  }
  *count = room == 0 ? found : std::min(found, room);
  return kSuccess;
}

// Every link of these GPUs can do everything that NVML asks about.
NVML_API Return nvmlDeviceGetNvLinkCapability(Device device, unsigned link, unsigned capability,
                                              unsigned* result) {
  Target target;
  NVML_TRY(ResolveLink(device, link, target));
  NVML_REQUIRE(capability <= 5 && result != nullptr);
  *result = 1;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter,
                                                unsigned long long* value) {
  Target target;
  NVML_TRY(ResolveLink(device, link, target));
  NVML_REQUIRE(counter < kLinkCounters && value != nullptr);
  *value = target.gpu->link_errors[link][counter];
  return kSuccess;
}

namespace {

// What is counted of recoveries is what nvlink --recovery adds; nothing else ever happens to these
// links, and nobody has counted the codes that they carry.
void AnswerPortCounter(const GpuState& gpu, PortCounter& counter) {
  constexpr unsigned kRecoveries = 1;  // GpuState::link_errors
  namespace ids = port_counter;
  const unsigned link =
      counter.counter_id == ids::kPortXmitWait ? counter.local_port : counter.local_port - 1;
  counter.status = kSuccess;
  counter.value_type = kValueUnsignedLongLong;
  counter.value.as_unsigned_long_long = 0;
  if (link >= gpu.link_count) {
    counter.status = kInvalidArgument;
    return;
  }
  switch (counter.counter_id) {
    case ids::kSuccessfulRecoveryEvents:
    case ids::kTotalSuccessfulRecoveries:
      counter.value.as_unsigned_long_long = gpu.link_errors[link][kRecoveries];
      return;
    case ids::kLinkDownEvents:
      counter.value.as_unsigned_long_long = gpu.links_down >> link & 1;
      return;
    case ids::kPortXmitWait:
    case ids::kOperationalRecovery:
      return;
    default:
      counter.status = kNotSupported;
  }
}

}  // namespace

NVML_API Return nvmlDeviceReadPRMCounters_v1(Device device, PortCounterList* list) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(list != nullptr && (list->count == 0 || list->counters != nullptr));
  constexpr std::uint32_t kBlackwell = 10;
  if (target.gpu->architecture < kBlackwell || target.gpu->link_count == 0) return kNotSupported;
  for (auto& counter : std::span(list->counters, list->count)) {
    AnswerPortCounter(*target.gpu, counter);
  }
  return kSuccess;
}

NVML_API Return nvmlDeviceResetNvLinkErrorCounters(Device device, unsigned link) {
  Target target;
  NVML_TRY(ResolveLink(device, link, target));
  const auto status = target.file->Update([&](NodeState& node) {
    std::ranges::fill(node.gpus[target.handle->gpu].link_errors[link], 0);
    return true;
  });
  if (status) return kSuccess;
  return status.error().code == pitcrew::base::Code::kDenied ? kNoPermission : kUnknown;
}

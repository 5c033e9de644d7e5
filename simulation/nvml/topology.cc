// How GPUs reach each other, and the node: common ancestors, NVLink, fabric, affinity.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "gpu/inventory.h"
#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/links.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;
using pitcrew::gpu::TopologyLevel;

namespace {

constexpr unsigned kLinkInactive = 0;
constexpr unsigned kLinkActive = 1;

// The far end of a link of the GPU; kInvalidArgument behind the last one NVML can have, unless the
// GPU has none at all.
Return FindLink(Device device, unsigned link, Target& target, LinkEnd& end) {
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->link_count == 0) return kNotSupported;
  NVML_REQUIRE(link < kMaxNvLinks);
  if (link >= target.gpu->link_count) return kNotSupported;
  end = FarEnd(*target.node, target.handle->gpu, link);
  return kSuccess;
}

}  // namespace

NVML_API Return nvmlDeviceGetTopologyCommonAncestor(Device first, Device second, unsigned* level) {
  Target a;
  Target b;
  NVML_TRY(ResolveGpu(first, a));
  NVML_TRY(ResolveGpu(second, b));
  NVML_REQUIRE(level != nullptr);
  *level = static_cast<unsigned>(CommonAncestor(*a.node, a.handle->gpu, b.handle->gpu));
  return kSuccess;
}

NVML_API Return nvmlDeviceOnSameBoard(Device first, Device second, int* same) {
  Target a;
  Target b;
  NVML_TRY(ResolveGpu(first, a));
  NVML_TRY(ResolveGpu(second, b));
  NVML_REQUIRE(same != nullptr);
  *same = a.handle->gpu == b.handle->gpu ? 1 : 0;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* active) {
  Target target;
  LinkEnd end;
  NVML_TRY(FindLink(device, link, target, end));
  NVML_REQUIRE(active != nullptr);
  *active = end.kind == LinkEnd::Kind::kNothing ? kLinkInactive : kLinkActive;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned* version) {
  Target target;
  LinkEnd end;
  NVML_TRY(FindLink(device, link, target, end));
  NVML_REQUIRE(version != nullptr);
  *version = target.gpu->link_version;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* pci) {
  Target target;
  LinkEnd end;
  NVML_TRY(FindLink(device, link, target, end));
  NVML_REQUIRE(pci != nullptr);
  if (end.kind == LinkEnd::Kind::kNothing) return kNotSupported;
  *pci = {};
  pci->domain = end.address.domain;
  pci->bus = end.address.bus;
  pci->device = end.address.device;
  pci->pci_device_id = end.pci_device_id;
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", end.address.BusId().c_str());
  // The legacy spelling is the long one without its first four digits.
  std::snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%s",
                end.address.BusId().c_str() + 4);
  return kSuccess;
}
NVML_API Return nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link, PciInfo* pci) {
  return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

// 0: a GPU at the far end, 2: a switch (nvmlIntNvLinkDeviceType_t).
NVML_API Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned* type) {
  Target target;
  LinkEnd end;
  NVML_TRY(FindLink(device, link, target, end));
  NVML_REQUIRE(type != nullptr);
  *type = end.kind == LinkEnd::Kind::kGpu ? 0 : end.kind == LinkEnd::Kind::kSwitch ? 2 : 255;
  return kSuccess;
}

namespace {

unsigned char HealthOf(const GpuState& gpu) {
  return gpu.fabric_health == 0 ? fabric_health::kHealthy
                                : static_cast<unsigned char>(gpu.fabric_health);
}

// A GPU of limited capacity has lost bandwidth, an unhealthy one its routes.
unsigned HealthMask(unsigned char summary) {
  const auto answer = [](bool is, unsigned first_bit) {
    return (is ? fabric_health::kTrue : fabric_health::kFalse) << first_bit;
  };
  return answer(summary == fabric_health::kLimitedCapacity, fabric_health::kDegradedBandwidth) |
         answer(false, fabric_health::kRouteRecovery) |
         answer(summary == fabric_health::kUnhealthy, fabric_health::kRouteUnhealthy) |
         answer(false, fabric_health::kAccessTimeoutRecovery) |
         fabric_health::kConfigurationCorrect << fabric_health::kIncorrectConfiguration;
}

}  // namespace

NVML_API Return nvmlDeviceGetGpuFabricInfo(Device device, GpuFabricInfo* info) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(info != nullptr);
  if (target.gpu->fabric_state == 0) return kNotSupported;
  *info = {};
  std::memcpy(info->cluster_uuid, target.gpu->fabric_cluster, sizeof(info->cluster_uuid));
  info->status = kSuccess;
  info->clique_id = target.gpu->fabric_clique;
  info->state = static_cast<unsigned char>(target.gpu->fabric_state);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetGpuFabricInfoV(Device device, void* buffer) {
  NVML_REQUIRE(buffer != nullptr);
  GpuFabricInfo first;
  NVML_TRY(nvmlDeviceGetGpuFabricInfo(device, &first));
  auto& info = *static_cast<GpuFabricInfoV2*>(buffer);
  if (info.version != kGpuFabricInfoV2 && info.version != kGpuFabricInfoV3) {
    return kArgumentVersionMismatch;
  }
  std::memcpy(info.cluster_uuid, first.cluster_uuid, sizeof(info.cluster_uuid));
  info.status = first.status;
  info.clique_id = first.clique_id;
  info.state = first.state;
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  const auto summary = HealthOf(*target.gpu);
  info.health_mask = HealthMask(summary);
  if (info.version == kGpuFabricInfoV3) {
    static_cast<GpuFabricInfoV3*>(buffer)->health_summary = summary;
  }
  return kSuccess;
}

NVML_API Return nvmlDeviceGetAddressingMode(Device device, AddressingMode* mode) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(mode != nullptr);
  if (mode->version != kAddressingModeV1) return kArgumentVersionMismatch;
  mode->value = target.gpu->addressing_mode;
  return kSuccess;
}

// Scope 0 is the NUMA node, 1 the socket; both are the same here.
NVML_API Return nvmlDeviceGetMemoryAffinity(Device device, unsigned size, unsigned long* nodes,
                                            unsigned scope) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(nodes != nullptr && size > 0 && scope <= 1);
  if (target.gpu->numa_node < 0) return kNotSupported;
  std::fill_n(nodes, size, 0ul);
  const auto node = static_cast<unsigned>(target.gpu->numa_node);
  if (node / 64 >= size) return kInsufficientSize;
  nodes[node / 64] = 1ul << node % 64;
  return kSuccess;
}

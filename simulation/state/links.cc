#include "simulation/state/links.h"

#include <algorithm>

namespace pitcrew::simulation {
namespace {

// Address and id of an NVSwitch, as HGX boards show them.
constexpr std::uint8_t kSwitchBus = 0x07;
constexpr std::uint32_t kSwitchId = 0x22a310de;
constexpr std::uint32_t kSwitches = 4;

// Links of `gpu` to each of its direct peers, and those peers in order.
struct Peers {
  std::uint32_t count = 0;
  std::uint32_t positions[kMaxGpus] = {};
  std::uint32_t fewest_links = 0;
};

Peers DirectPeers(const NodeState& node, std::uint32_t gpu) {
  Peers peers;
  peers.fewest_links = node.gpus[gpu].link_count;
  for (std::uint32_t i = 0; i < node.gpu_count && i < kMaxGpus; ++i) {
    if (node.gpus[i].link_peers != LinkPeers::kDirect) continue;
    peers.fewest_links = std::min(peers.fewest_links, node.gpus[i].link_count);
    if (i != gpu) peers.positions[peers.count++] = i;
  }
  return peers;
}

}  // namespace

LinkEnd FarEnd(const NodeState& node, std::uint32_t gpu, std::uint32_t link) {
  const GpuState& state = node.gpus[gpu];
  if (link >= state.link_count || (state.links_down >> link & 1) != 0) return {};
  if (state.link_peers == LinkPeers::kSwitch) {
    const auto bus = static_cast<std::uint8_t>(kSwitchBus + link % kSwitches);
    return {LinkEnd::Kind::kSwitch, {0, bus, 0, 0}, kSwitchId};
  }
  if (state.link_peers != LinkPeers::kDirect) return {};
  const Peers peers = DirectPeers(node, gpu);
  if (peers.count == 0) return {};
  const std::uint32_t each = peers.fewest_links / peers.count;
  if (each == 0 || link / each >= peers.count) return {};
  const std::uint32_t position = peers.positions[link / each];
  const GpuState& peer = node.gpus[position];
  // A link is down when either end is.
  const Peers back = DirectPeers(node, position);
  const auto* own = std::ranges::find(back.positions, gpu);
  const auto number = static_cast<std::uint32_t>(own - back.positions) * each + link % each;
  if ((peer.links_down >> number & 1) != 0) return {};
  return {
      LinkEnd::Kind::kGpu,
      {peer.pci_domain, static_cast<std::uint8_t>(peer.pci_bus),
       static_cast<std::uint8_t>(peer.pci_device), static_cast<std::uint8_t>(peer.pci_function)},
      peer.pci_device_id};
}

gpu::TopologyLevel CommonAncestor(const NodeState& node, std::uint32_t a, std::uint32_t b) {
  const GpuState& first = node.gpus[a];
  const GpuState& second = node.gpus[b];
  if (a == b) return gpu::TopologyLevel::kInternal;
  if (first.numa_node != second.numa_node) return gpu::TopologyLevel::kSystem;
  if (first.pcie_switch != 0 && first.pcie_switch == second.pcie_switch) {
    return gpu::TopologyLevel::kSingle;
  }
  return gpu::TopologyLevel::kNode;
}

}  // namespace pitcrew::simulation

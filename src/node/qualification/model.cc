#include "node/qualification/model.h"

#include <algorithm>
#include <iterator>

namespace pitcrew::node::qualification {
namespace {

constexpr std::uint32_t kNvidia = 0x10de;

constexpr Model kModels[] = {
#define MODEL(device, name, generation, width, bandwidth, links, how, nvlink) \
  {device, name, generation, width, bandwidth, links, Links::how, nvlink},
#include "node/qualification/models.def"
#undef MODEL
};

}  // namespace

std::span<const Model> Models() { return kModels; }

const Model* FindModel(std::uint32_t pci_device_id) {
  if ((pci_device_id & 0xffffU) != kNvidia) return nullptr;
  const auto* found = std::ranges::find(kModels, pci_device_id >> 16U, &Model::pci_device);
  return found == std::end(kModels) ? nullptr : found;
}

double PcieBandwidth(unsigned generation, unsigned width) {
  // One lane in one direction, after its encoding: 8b/10b, 128b/130b, flits from generation 6 on.
  constexpr double kLane[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
  return generation < std::size(kLane) ? kLane[generation] * width : 0;
}

}  // namespace pitcrew::node::qualification

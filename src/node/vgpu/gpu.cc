#include "node/vgpu/gpu.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::node::vgpu {

std::uint64_t Slot::Room(std::string_view type) const {
  const auto offer = std::ranges::find(offers, type, &Offer::type);
  return offer == offers.end() ? 0 : offer->count;
}

bool Vgpu::IsSameAs(const Vgpu& other) const {
  return slot == other.slot && uuid == other.uuid && type_id == other.type_id &&
         (type == other.type || !type_id.empty());
}

std::string Vgpu::Title() const {
  const auto& name = type.empty() ? fmt::format("vGPU of type {}", type_id) : type;
  if (uuid.empty()) return fmt::format("{} at {}", name, slot.SysfsName());
  return fmt::format("{} at {} ({})", name, slot.SysfsName(), uuid);
}

std::string Gpu::Title() const { return fmt::format("GPU {} ({})", position, pci.SysfsName()); }

const Type* Gpu::FindType(std::string_view name) const {
  const auto found = std::ranges::find(types, name, &Type::name);
  return found == types.end() ? nullptr : &*found;
}

Counts CountsOf(const Gpu& gpu) {
  Counts counts;
  for (const auto& vgpu : gpu.vgpus) ++counts[vgpu.type.empty() ? vgpu.type_id : vgpu.type];
  return counts;
}

std::string DescribeTypes(const Gpu& gpu) {
  std::vector<std::string> texts;
  for (const auto& type : gpu.types) {
    texts.push_back(type.most ? fmt::format("{} (up to {})", type.name, *type.most) : type.name);
  }
  return texts.empty() ? "none that the driver tells now" : base::Join(texts, ", ");
}

}  // namespace pitcrew::node::vgpu

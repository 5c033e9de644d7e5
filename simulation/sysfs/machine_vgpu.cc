// vGPUs: the kernel's mediated devices, and the attributes of NVIDIA's own framework.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {
namespace {

constexpr std::size_t kUuidLength = 36;

bool IsUuid(std::string_view text) {
  if (text.size() != kUuidLength) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !std::isxdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return true;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return lower;
}

}  // namespace

void Machine::SetMig(std::size_t gpu, MigState state) {
  if (gpu < gpus_.size()) gpus_[gpu].mig = std::move(state);
}

bool Machine::IsMdevParent(const Device& device) const {
  if (platform_.framework != VgpuFramework::kMdev || device.driver != "nvidia" || !device.gpu) {
    return false;
  }
  const Gpu& gpu = gpus_[*device.gpu];
  return !gpu.types.empty() && device.physical.has_value() == (gpu.virtual_functions != 0);
}

bool Machine::HasVendorAttributes(const Device& device) const {
  return platform_.framework == VgpuFramework::kVendor && device.driver == "nvidia" && device.gpu &&
         device.physical && !gpus_[*device.gpu].types.empty();
}

std::vector<VgpuInUse> Machine::InUse(std::size_t gpu) const {
  std::vector<VgpuInUse> in_use;
  for (const auto& [uuid, mdev] : mdevs_) {
    const Device* parent = Find(mdev.parent);
    if (parent == nullptr || parent->gpu != gpu) continue;
    if (const auto* type = gpus_[gpu].FindType(mdev.type)) in_use.push_back(type);
  }
  for (const auto& [address, device] : devices_) {
    if (device.gpu != gpu || device.vgpu_type == 0) continue;
    if (const auto* type = gpus_[gpu].FindType(device.vgpu_type)) in_use.push_back(type);
  }
  return in_use;
}

std::uint32_t Machine::Room(std::size_t gpu, const VgpuType& type) const {
  return Fits(gpus_[gpu], InUse(gpu), type);
}

std::uint32_t Machine::Share(const Device& device, std::uint32_t room) const {
  if (!device.physical) return room;
  // A virtual function takes one.
  const bool taken = device.vgpu_type != 0 || std::ranges::any_of(mdevs_, [&](const auto& one) {
                       return one.second.parent == device.address;
                     });
  return taken ? 0 : std::min(room, 1u);
}

std::uint32_t Machine::Available(const Device& device, const VgpuType& type) const {
  return device.gpu ? Share(device, Room(*device.gpu, type)) : 0;
}

// drivers/vfio/mdev/mdev_sysfs.c, create_store; which errno NVIDIA's driver gives when nothing fits
// is not published.
Errno Machine::CreateMdev(const PciAddress& parent, std::uint32_t type, std::string_view uuid) {
  const Device* device = Find(parent);
  if (device == nullptr || !IsMdevParent(*device)) return ENODEV;
  const std::string name = Lower(WithoutNewline(uuid));
  if (!IsUuid(name)) return EINVAL;
  if (mdevs_.contains(name)) return EEXIST;
  const VgpuType* wanted = gpus_[*device->gpu].FindType(type);
  if (wanted == nullptr) return ENODEV;
  if (const auto fault = device->faults.find(FaultPoint::kVgpu); fault != device->faults.end()) {
    return fault->second;
  }
  if (Available(*device, *wanted) == 0) return ENOSPC;
  mdevs_.emplace(name, Mdev{name, parent, type, FreeGroup(), false});
  events_.push_back({"add", DevicePath(parent) + "/" + name, {{"SUBSYSTEM", "mdev"}}});
  return 0;
}

Errno Machine::RemoveMdev(std::string_view uuid, std::string_view value) {
  const auto found = mdevs_.find(uuid);
  if (found == mdevs_.end()) return ENODEV;
  const std::string_view digits = WithoutNewline(value);
  unsigned long number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return EINVAL;
  if (number == 0) return 0;
  if (found->second.used) return EBUSY;
  events_.push_back(
      {"remove", DevicePath(found->second.parent) + "/" + found->first, {{"SUBSYSTEM", "mdev"}}});
  mdevs_.erase(found);
  return 0;
}

// NVIDIA's published vGPU interface to VFIO: what is no decimal number is refused, making one where
// one is and taking one away where none is are both "not permitted". What is given for a type that
// does not fit is not published.
Errno Machine::SetVgpuType(const PciAddress& function, std::string_view value) {
  const auto found = devices_.find(function);
  if (found == devices_.end() || !HasVendorAttributes(found->second)) return ENODEV;
  Device& device = found->second;
  const std::string_view digits = WithoutNewline(value);
  long type = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), type);
  if (error == std::errc::result_out_of_range) return ERANGE;
  if (error != std::errc{} || end != digits.data() + digits.size()) return EINVAL;
  if (type == 0) {
    if (device.vgpu_type == 0) return EPERM;
    if (device.used) return EBUSY;
    device.vgpu_type = 0;
    return 0;
  }
  if (device.vgpu_type != 0) return EPERM;
  if (const auto fault = device.faults.find(FaultPoint::kVgpu); fault != device.faults.end()) {
    return fault->second;
  }
  const VgpuType* wanted = gpus_[*device.gpu].FindType(static_cast<std::uint32_t>(type));
  if (wanted == nullptr || Available(device, *wanted) == 0) return EINVAL;
  device.vgpu_type = wanted->id;
  return 0;
}

void Machine::RemoveVgpusOf(const Device& device) {
  if (const auto found = devices_.find(device.address); found != devices_.end()) {
    found->second.vgpu_type = 0;
  }
  for (auto mdev = mdevs_.begin(); mdev != mdevs_.end();) {
    if (mdev->second.parent != device.address) {
      ++mdev;
      continue;
    }
    events_.push_back(
        {"remove", DevicePath(device.address) + "/" + mdev->first, {{"SUBSYSTEM", "mdev"}}});
    mdev = mdevs_.erase(mdev);
  }
}

}  // namespace pitcrew::simulation::sysfs

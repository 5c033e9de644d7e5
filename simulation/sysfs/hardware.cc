#include "simulation/sysfs/hardware.h"

#include <fmt/format.h>

#include "simulation/description/vgpu.h"
#include "simulation/driver/pci_attributes.h"

namespace pitcrew::simulation::sysfs {
namespace {

constexpr std::uint32_t kAmpere = 7;  // NVML's number of the architecture

// The functions of a card beside its GPU, with ids of a Turing card (its audio, USB and USB-C
// functions).
struct CardFunction {
  std::uint8_t function;
  std::uint16_t device;
  std::uint32_t class_code;
};
constexpr CardFunction kAudio{1, 0x10f8, 0x040300};
constexpr CardFunction kUsb{2, 0x1ad8, 0x0c0330};
constexpr CardFunction kUcsi{3, 0x1ad9, 0x0c8000};

// CPUs spread evenly over the NUMA nodes, as NVML tells them too.
std::string CpusOf(const NodeState& node, int numa_node) {
  if (numa_node < 0 || node.numa_nodes == 0 || node.cpus == 0) {
    return node.cpus == 0 ? "" : fmt::format("0-{}", node.cpus - 1);
  }
  const auto position = static_cast<std::uint32_t>(numa_node);
  const std::uint32_t first = node.cpus * position / node.numa_nodes;
  const std::uint32_t end = node.cpus * (position + 1) / node.numa_nodes;
  if (end <= first) return "";
  return end == first + 1 ? std::to_string(first) : fmt::format("{}-{}", first, end - 1);
}

Device GpuDevice(const NodeState& node, std::uint32_t index, const Gpu& gpu) {
  const GpuState& state = node.gpus[index];
  Device device;
  device.address = {state.pci_domain, static_cast<std::uint8_t>(state.pci_bus),
                    static_cast<std::uint8_t>(state.pci_device),
                    static_cast<std::uint8_t>(state.pci_function)};
  device.ids = {static_cast<std::uint16_t>(state.pci_device_id & 0xffff),
                static_cast<std::uint16_t>(state.pci_device_id >> 16),
                static_cast<std::uint16_t>(state.pci_subsystem_id & 0xffff),
                static_cast<std::uint16_t>(state.pci_subsystem_id >> 16), state.pci_class};
  device.numa_node = state.numa_node;
  device.cpus = CpusOf(node, state.numa_node);
  device.resource = PciResource(state, index);
  device.config = PciConfig(state.pci_device_id, state.pci_subsystem_id, state.pci_class);
  device.group = kFirstGroup + index;
  device.total_functions = gpu.virtual_functions;
  device.gpu = index;
  return device;
}

// Another function or device beside a GPU, in its group.
Device Beside(const Device& gpu, std::uint8_t slot, std::uint8_t function, const PciIds& ids) {
  Device device;
  device.address = gpu.address;
  device.address.device = slot;
  device.address.function = function;
  device.ids = ids;
  device.numa_node = gpu.numa_node;
  device.cpus = gpu.cpus;
  device.group = gpu.group;
  device.config =
      PciConfig(static_cast<std::uint32_t>(ids.device) << 16 | ids.vendor,
                static_cast<std::uint32_t>(ids.subsystem_device) << 16 | ids.subsystem_vendor,
                ids.class_code);
  return device;
}

void AddCard(const CardDescription& card, Device& gpu, std::vector<Device>& devices) {
  const auto add = [&](bool present, const CardFunction& function) {
    if (!present) return;
    devices.push_back(Beside(gpu, gpu.address.device, function.function,
                             {kNvidiaVendor, function.device, gpu.ids.subsystem_vendor,
                              gpu.ids.subsystem_device, function.class_code}));
    gpu.consumers.push_back(devices.back().address);
  };
  add(card.audio, kAudio);
  add(card.usb, kUsb);
  add(card.ucsi, kUcsi);
  if (card.foreign_in_group) {
    constexpr PciIds kNetworkCard{0x8086, 0x1572, 0x8086, 0x0000, 0x020000};
    devices.push_back(Beside(gpu, 0x1f, 0, kNetworkCard));
  }
  gpu.boot_vga = card.boot_display;
}

Device Switch(const NodeState& node, std::uint32_t index) {
  const bool ampere = node.gpu_count > 0 && node.gpus[0].architecture == kAmpere;
  Device device;
  device.address = {0, static_cast<std::uint8_t>(0x05 + index), 0, 0};
  device.ids = {kNvidiaVendor, static_cast<std::uint16_t>(ampere ? 0x1af1 : 0x22a3), kNvidiaVendor,
                0x1796, 0x068000};
  device.numa_node = 0;
  device.cpus = CpusOf(node, 0);
  device.group = kFirstGroup + node.gpu_count + index;
  device.config = PciConfig(static_cast<std::uint32_t>(device.ids.device) << 16 | kNvidiaVendor,
                            0x1796u << 16 | kNvidiaVendor, device.ids.class_code);
  return device;
}

}  // namespace

base::Result<Machine> MakeMachine(const Description& description,
                                  const std::filesystem::path& profile_folder) {
  std::vector<Device> devices;
  std::vector<Gpu> gpus;
  const NodeState& node = description.node;
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) {
    TRY_ASSIGN(auto gpu, LoadVgpus(node.gpus[i].profile, profile_folder));
    Device device = GpuDevice(node, i, gpu);
    gpus.push_back(std::move(gpu));
    AddCard(description.platform.cards[i], device, devices);
    devices.push_back(std::move(device));
  }
  for (std::uint32_t i = 0; i < description.platform.switches; ++i) {
    devices.push_back(Switch(node, i));
  }
  return Machine(description.platform.kernel, std::move(devices), std::move(gpus));
}

}  // namespace pitcrew::simulation::sysfs

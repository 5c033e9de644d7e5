#include "node/vgpu/node_vgpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "host/device_users.h"
#include "host/mdev.h"
#include "host/pci.h"
#include "host/pci_control.h"
#include "host/process.h"
#include "host/vendor_vgpu.h"
#include "host/vfio_device.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

using gpu::PciAddress;

constexpr std::string_view kSriovManage = "/usr/lib/nvidia/sriov-manage";
// It waits for the driver to take each of up to some dozens of functions.
constexpr std::chrono::minutes kSriovTimeout{5};

mig::DeviceId IdOf(const host::PciDevice& device) {
  const auto half = [](const base::Observed<std::uint16_t>& value) {
    return value.is_present() ? std::uint32_t{*value.value()} : 0U;
  };
  return {std::uint32_t{device.device} << 16 | device.vendor,
          half(device.subsystem_device) << 16 | half(device.subsystem_vendor)};
}

unsigned CountOf(const base::Observed<std::uint32_t>& value) {
  return value.is_present() ? *value.value() : 0;
}

void AddType(Gpu& gpu, std::string name, std::optional<std::uint64_t> most) {
  if (gpu.FindType(name) == nullptr) gpu.types.push_back({std::move(name), most});
}

void Sort(Gpu& gpu) {
  std::ranges::sort(gpu.types, {}, &Type::name);
  std::ranges::sort(gpu.slots, {}, &Slot::address);
  std::ranges::sort(gpu.vgpus, {},
                    [](const Vgpu& vgpu) { return std::pair(vgpu.slot, vgpu.uuid); });
}

std::vector<Offer> OffersOf(const std::vector<host::MdevType>& types) {
  std::vector<Offer> offers;
  for (const auto& type : types)
    offers.push_back({NameOfTitle(type.name), type.id, type.available});
  std::ranges::sort(offers, {}, &Offer::type);
  return offers;
}

std::vector<Offer> VendorOffers(const std::vector<host::VendorVgpuType>& types,
                                std::uint32_t current) {
  std::vector<Offer> offers;
  for (const auto& type : types) {
    offers.push_back({NameOfTitle(type.name), std::to_string(type.id), current == 0 ? 1U : 0U});
  }
  std::ranges::sort(offers, {}, &Offer::type);
  return offers;
}

// Of a kernel without the framework nothing is listed; whatever else goes wrong is an error.
template <class T>
base::Result<std::vector<T>> EmptyWithout(base::Result<std::vector<T>> listed) {
  if (!listed && listed.error().code == base::Code::kNotFound) return std::vector<T>();
  return listed;
}

}  // namespace

// What one look at the node has found; each file is read once (upstream's queries are quadratic in
// virtual functions: section 9, weakness 10).
struct NodeVgpus::Listing {
  host::PciScan pci;
  std::vector<PciAddress> mdev_parents;
  std::vector<host::MdevDevice> mdevs;
  base::Result<std::map<std::string, std::vector<host::DeviceUser>>> users;

  [[nodiscard]] std::vector<PciAddress> FunctionsOf(const PciAddress& physical) const {
    std::vector<PciAddress> functions;
    for (const auto& device : pci.devices) {
      const auto* parent = device.physical_function.value();
      if (parent != nullptr && *parent == physical) functions.push_back(device.address);
    }
    return functions;
  }
};

NodeVgpus::NodeVgpus(NodeSettings settings)
    : settings_(std::move(settings)),
      known_types_(vgpu_types::KnownTypes::Load(settings_.known_types)) {}

base::Observed<std::vector<std::string>> NodeVgpus::HoldersOf(
    const Listing& listing, const std::filesystem::path& device) const {
  using Holders = base::Observed<std::vector<std::string>>;
  if (!listing.users) return Holders::Unknown(listing.users.error());
  const auto nodes = host::VfioNodes(device);
  if (!nodes) return Holders::Unknown(nodes.error());
  std::vector<std::string> holders;
  for (const auto& node : *nodes) {
    const auto found = listing.users->find(node);
    if (found == listing.users->end()) continue;
    for (const auto& user : found->second) holders.push_back(user.ToString());
  }
  return Holders::Present(std::move(holders));
}

base::Status NodeVgpus::ReadMdevs(const Listing& listing, Gpu& gpu) const {
  std::set<PciAddress> slots;
  const auto functions = listing.FunctionsOf(gpu.pci);
  for (const auto& parent : listing.mdev_parents) {
    const bool is_own =
        parent == gpu.pci || std::ranges::find(functions, parent) != functions.end();
    if (!is_own) continue;
    TRY_ASSIGN(const auto types, host::ListMdevTypes(settings_.root, parent));
    for (const auto& type : types) AddType(gpu, NameOfTitle(type.name), type.most);
    gpu.slots.push_back({parent, OffersOf(types)});
    slots.insert(parent);
  }
  if (gpu.slots.empty()) return {};
  gpu.framework = Framework::kMdev;
  for (const auto& mdev : listing.mdevs) {
    if (!slots.contains(mdev.parent)) continue;
    Vgpu vgpu{.slot = mdev.parent, .uuid = mdev.uuid, .type = NameOfTitle(mdev.type_name)};
    vgpu.holders = HoldersOf(listing, settings_.root.At("/sys/bus/mdev/devices") / mdev.uuid);
    gpu.vgpus.push_back(std::move(vgpu));
  }
  return {};
}

base::Status NodeVgpus::ReadVendor(const Listing& listing, Gpu& gpu) {
  for (const auto& function : listing.FunctionsOf(gpu.pci)) {
    TRY_ASSIGN(const bool has, host::HasVendorVgpus(settings_.root, function));
    if (!has) continue;
    gpu.framework = Framework::kVendor;
    TRY_ASSIGN(const auto current, host::CurrentVgpuType(settings_.root, function));
    TRY_ASSIGN(const auto types, host::CreatableVgpuTypes(settings_.root, function));
    known_types_.Learn(gpu.pci, types);
    gpu.slots.push_back({function, VendorOffers(types, current)});
    if (current == 0) continue;
    Vgpu vgpu{.slot = function, .uuid = {}, .type = {}, .type_id = std::to_string(current)};
    vgpu.holders =
        HoldersOf(listing, settings_.root.At("/sys/bus/pci/devices") / function.SysfsName());
    gpu.vgpus.push_back(std::move(vgpu));
  }
  return {};
}

// An empty GPU tells all of its types; of one that is not, those that it told before count too.
void NodeVgpus::NameTypes(Gpu& gpu) const {
  for (const auto& slot : gpu.slots) {
    for (const auto& offer : slot.offers) AddType(gpu, offer.type, std::nullopt);
  }
  if (gpu.vgpus.empty()) return;
  for (const auto& [id, title] : known_types_.Of(gpu.pci)) {
    AddType(gpu, NameOfTitle(title), std::nullopt);
    for (auto& vgpu : gpu.vgpus) {
      if (vgpu.type_id == std::to_string(id)) vgpu.type = NameOfTitle(title);
    }
  }
}

base::Result<std::vector<Gpu>> NodeVgpus::Read() {
  Listing listing;
  TRY_ASSIGN(listing.pci, host::ReadPciDevices(settings_.root.At("/sys/bus/pci/devices")));
  if (!listing.pci.failures.empty()) {
    return base::Fail(listing.pci.failures.front().Within(
        "a PCI device cannot be read, so positions of GPUs are not certain"));
  }
  TRY_ASSIGN(listing.mdev_parents, EmptyWithout(host::ListMdevParents(settings_.root)));
  if (!listing.mdev_parents.empty()) {
    TRY_ASSIGN(listing.mdevs, EmptyWithout(host::ListMdevs(settings_.root)));
  }
  listing.users = host::ListVfioUsers(settings_.processes.At("/proc"));
  std::vector<Gpu> gpus;
  for (const auto& device : host::NvidiaGpus(listing.pci)) {
    Gpu gpu{.position = static_cast<int>(gpus.size()), .pci = device.address, .id = IdOf(device)};
    gpu.functions = CountOf(device.sriov_vfs);
    gpu.most_functions = CountOf(device.sriov_total_vfs);
    auto read = ReadMdevs(listing, gpu);
    if (read && gpu.framework == Framework::kNone) read = ReadVendor(listing, gpu);
    if (!read) {
      return base::Fail(base::Unavailable(
          "VgpusUnreadable", fmt::format("{}: {}", gpu.Title(), read.error().message)));
    }
    gpus.push_back(std::move(gpu));
  }
  for (auto& gpu : gpus) {
    if (gpu.framework == Framework::kVendor) NameTypes(gpu);
    Sort(gpu);
  }
  return gpus;
}

base::Result<Slot> NodeVgpus::ReadSlot(const Gpu& gpu, const PciAddress& slot) {
  if (gpu.framework == Framework::kMdev) {
    TRY_ASSIGN(const auto types, host::ListMdevTypes(settings_.root, slot));
    return Slot{slot, OffersOf(types)};
  }
  TRY_ASSIGN(const auto current, host::CurrentVgpuType(settings_.root, slot));
  TRY_ASSIGN(const auto types, host::CreatableVgpuTypes(settings_.root, slot));
  return Slot{slot, VendorOffers(types, current)};
}

base::Status NodeVgpus::Create(const Gpu& gpu, const PciAddress& slot, const Offer& offer,
                               std::string_view uuid) {
  const auto made = [&]() -> base::Status {
    if (gpu.framework == Framework::kMdev) {
      return host::CreateMdev(settings_.root, slot, offer.type_id, uuid);
    }
    TRY_ASSIGN(const auto id, base::ParseUnsigned(offer.type_id));
    return host::SetVgpuType(settings_.root, slot, static_cast<std::uint32_t>(id));
  }();
  if (made) return {};
  return base::Fail(made.error().Within(fmt::format(
      "unable to create {} vGPU device on parent device {}", offer.type, slot.SysfsName())));
}

base::Status NodeVgpus::Remove(const Gpu& gpu, const Vgpu& vgpu) {
  const auto removed = gpu.framework == Framework::kMdev
                           ? host::RemoveMdev(settings_.root, vgpu.uuid)
                           : host::SetVgpuType(settings_.root, vgpu.slot, 0);
  if (removed) return {};
  return base::Fail(
      removed.error().Within(fmt::format("error deleting {} vGPU device with id {}", vgpu.type,
                                         vgpu.uuid.empty() ? vgpu.slot.SysfsName() : vgpu.uuid)));
}

// Nothing where no driver root has NVIDIA's program.
std::optional<base::Status> NodeVgpus::RunSriovManage(const Gpu& gpu, const char* action) const {
  for (const auto& root : settings_.driver_roots) {
    const auto there = host::Exists(root.At(kSriovManage));
    if (!there) return base::Fail(there.error());
    if (!*there) continue;
    host::ProgramRun run;
    run.program = kSriovManage;
    run.arguments = {action, gpu.pci.SysfsName()};
    if (!root.is_own()) run.root = root.path();
    run.deadline = std::chrono::steady_clock::now() + kSriovTimeout;
    const auto done = host::ReadProgramOutput(std::move(run));
    if (done) return base::Status();
    return base::Fail(
        done.error().Within(fmt::format("change the virtual functions of {}", gpu.Title())));
  }
  return std::nullopt;
}

base::Status NodeVgpus::EnableFunctions(const Gpu& gpu) {
  if (auto done = RunSriovManage(gpu, "-e")) return *std::move(done);
  auto made = host::SetVirtualFunctions(settings_.root, gpu.pci, gpu.most_functions);
  if (made || made.error().code != base::Code::kNotFound) return made;
  return base::Fail(base::Error{
      base::Code::kUnsupported, "NoSriovManage",
      fmt::format("{}: its driver makes virtual functions by NVIDIA's program {} only, and no root "
                  "of a driver has it: is this the vGPU manager's driver?",
                  gpu.Title(), kSriovManage)});
}

base::Status NodeVgpus::DisableFunctions(const Gpu& gpu) {
  if (auto done = RunSriovManage(gpu, "-d")) return *std::move(done);
  return host::SetVirtualFunctions(settings_.root, gpu.pci, 0);
}

void NodeVgpus::RememberTypes() {
  if (const auto saved = known_types_.Save(settings_.known_types); !saved) {
    base::LogWarning("Names of vGPU types are not remembered", saved.error());
  }
}

std::string RandomUuid() {
  std::random_device device;
  const auto word = [&device] { return std::uint32_t{device()}; };
  const auto a = word();
  const auto b = word();
  const auto c = word();
  const auto d = word();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", a, b >> 16, b & 0xfff,
                     0x8000U | (c >> 16 & 0x3fff), c & 0xffff, d);
}

}  // namespace pitcrew::node::vgpu

#include "node/mig/node_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "host/driver_root.h"
#include "host/kernel.h"
#include "host/pci.h"
#include "host/pci_control.h"
#include "host/process.h"
#include "node/mig/pci_mode.h"
#include "node/mig/profiles.h"

namespace pitcrew::node::mig {
namespace {

using base::Observed;
using gpu::MigPlacement;

// The first version of NVML that changes MIG (mig-manager.md section 2.5).
constexpr std::uint64_t kFirstNvmlWithMig = 11;

bool KnowsMig(std::string_view library_version) {
  const auto major = base::ParseUnsigned(library_version.substr(0, library_version.find('.')));
  return !major || *major >= kFirstNvmlWithMig;  // one that says nothing is tried
}

MigPlacement From(const nvml::Placement& placement) { return {placement.start, placement.size}; }

Observed<std::vector<Profile>> ReadProfiles(nvml::MigControl& control) {
  const auto known = control.GpuInstanceProfiles();
  if (!known) return Observed<std::vector<Profile>>::Unknown(known.error());
  if (known->empty()) {
    return Observed<std::vector<Profile>>::Unknown(
        base::Unavailable("NoProfiles", "the driver names no MIG profile"));
  }
  std::vector<Profile> profiles;
  for (const auto& one : *known) {
    Profile profile{.index = one.index,
                    .id = one.id,
                    .count = one.instance_count,
                    .memory_mib = one.memory_mib,
                    .engines = one.engines,
                    .placements = {}};
    // Drivers may tell places only while MIG is on.
    const auto places = control.GpuInstancePlacements(one.id);
    for (const auto& place : places.value_or(std::vector<nvml::Placement>())) {
      profile.placements.push_back(From(place));
    }
    profiles.push_back(std::move(profile));
  }
  return Observed<std::vector<Profile>>::Present(std::move(profiles));
}

// NVML's index of the profile with an id.
template <class Known>
base::Result<unsigned> IndexOf(const Known& profiles, unsigned id) {
  const auto found =
      std::ranges::find(profiles, id, [](const auto& profile) { return profile.id; });
  if (found != profiles.end()) return found->index;
  return base::Fail(base::Internal(
      "UnknownProfile", fmt::format("the driver names no MIG profile with the id {}", id)));
}

base::Result<Layout> ReadLayout(nvml::MigControl& control, const std::vector<Profile>& profiles) {
  Layout layout{.mig_enabled = true, .instances = {}};
  TRY_ASSIGN(const auto instances, control.GpuInstances());
  for (const auto& one : instances) {
    GpuInstance instance{.placement = From(one.placement), .compute = {}};
    TRY_ASSIGN(instance.profile, IndexOf(profiles, one.profile_id));
    TRY_ASSIGN(const auto known, control.ComputeInstanceProfiles(one.id));
    TRY_ASSIGN(const auto compute, control.ComputeInstances(one.id));
    for (const auto& part : compute) {
      ComputeInstance made{.placement = From(part.placement)};
      TRY_ASSIGN(made.profile, IndexOf(known, part.profile_id));
      instance.compute.push_back(made);
    }
    layout.instances.push_back(std::move(instance));
  }
  return layout;
}

// What NVML says of the board's MIG.
void ReadMig(nvml::MigControl& control, Gpu& gpu) {
  const auto mode = control.Mode();
  if (!mode && mode.error().code == base::Code::kUnsupported) return;
  gpu.mode =
      mode ? Observed<gpu::MigMode>::Present(*mode) : Observed<gpu::MigMode>::Unknown(mode.error());
  if (!mode) return;
  gpu.profiles = ReadProfiles(control);
  if (!mode->current) return;
  if (const auto* error = gpu.profiles.error()) {
    gpu.layout = Observed<Layout>::Unknown(*error);
    return;
  }
  auto layout = ReadLayout(control, *gpu.profiles.value());
  gpu.layout = layout ? Observed<Layout>::Present(*std::move(layout))
                      : Observed<Layout>::Unknown(layout.error());
}

void BecomeUnknown(const base::Error& error, Gpu& gpu) {
  gpu.mode = Observed<gpu::MigMode>::Unknown(error);
  gpu.profiles = Observed<std::vector<Profile>>::Unknown(error);
  gpu.layout = Observed<Layout>::Unknown(error);
}

DeviceId IdOf(const host::PciDevice& device) {
  DeviceId id{.device = std::uint32_t{device.device} << 16 | device.vendor, .subsystem = {}};
  const auto* vendor = device.subsystem_vendor.value();
  const auto* subdevice = device.subsystem_device.value();
  if (vendor != nullptr && subdevice != nullptr) {
    id.subsystem = std::uint32_t{*subdevice} << 16 | *vendor;
  }
  return id;
}

}  // namespace

struct NodeGpus::Implementation {
  NodeSettings settings;
  std::shared_ptr<nvml::Library> library;
  bool uses_registers = false;

  base::Result<bool> IsModuleLoaded() const {
    TRY_ASSIGN(const auto modules, host::ReadLoadedModules(settings.root.At("/proc")));
    return std::ranges::find(modules, "nvidia") != modules.end();
  }

  // Opens NVML, or finds out that the boards' registers have to do.
  base::Status Open() {
    if (library != nullptr) return {};
    auto opened = nvml::Library::Open(settings.driver_roots);
    uses_registers = false;
    if (opened) {
      library = *std::move(opened);
      return {};
    }
    // Boards that a driver works with, or may work with, are left to it.
    const auto loaded = IsModuleLoaded();
    if (!loaded || *loaded) return base::Fail(opened.error());
    uses_registers = true;
    return {};
  }

  base::Result<std::unique_ptr<nvml::MigControl>> ControlOf(const Gpu& gpu) {
    if (uses_registers) {
      return base::Fail(base::Unavailable(
          "ModuleNotLoaded", "nvidia module not loaded: MIG instances need the driver"));
    }
    TRY(Open());
    return library->OpenMig(gpu.uuid);
  }

  [[nodiscard]] std::filesystem::path FolderOf(const Gpu& gpu) const {
    return settings.root.At("/sys/bus/pci/devices") / gpu.pci.SysfsName();
  }

  base::Result<Gpu> ReadWithRegisters(const host::PciDevice& device, int stop_fd) const {
    Gpu gpu{.pci = device.address, .id = IdOf(device)};
    const auto mode = ReadModeRegisters(device.folder, stop_fd);
    if (!mode && mode.error().code == base::Code::kCancelled) return base::Fail(mode.error());
    const bool incapable = !mode && (mode.error().reason == "NotMigCapable");
    if (mode) gpu.mode = Observed<gpu::MigMode>::Present(*mode);
    if (!mode && !incapable) BecomeUnknown(mode.error(), gpu);
    const auto no_driver = base::Unavailable("ModuleNotLoaded", "nvidia module not loaded");
    if (mode) gpu.profiles = Observed<std::vector<Profile>>::Unknown(no_driver);
    if (mode && mode->current) gpu.layout = Observed<Layout>::Unknown(no_driver);
    return gpu;
  }

  Gpu ReadWithNvml(const gpu::Device& device) {
    Gpu gpu{.pci = device.pci,
            .id = {device.pci_device_id, device.pci_subsystem_id},
            .uuid = device.uuid,
            .name = device.name};
    if (const auto* memory = device.memory.value()) gpu.memory_bytes = memory->total;
    if (device.fault) {
      BecomeUnknown(*device.fault, gpu);
      return gpu;
    }
    auto control = library->OpenMig(device.uuid);
    if (control) {
      ReadMig(**control, gpu);
    } else {
      BecomeUnknown(control.error(), gpu);
    }
    return gpu;
  }

  base::Result<host::PciScan> Scan() const {
    const auto folder = settings.root.At("/sys/bus/pci/devices");
    auto scan = host::ReadPciDevices(folder);
    // A machine without PCI devices in sysfs, such as many a container: NVML's list is enough.
    if (!scan && scan.error().code == base::Code::kNotFound && library != nullptr) {
      return host::PciScan{};
    }
    return scan;
  }

  base::Result<std::vector<Gpu>> Read(int stop_fd);
  base::Result<std::vector<Gpu>> JoinWithNvml(const host::PciScan& scan, int stop_fd);
  base::Status ResetWithSmi(const std::vector<Gpu>& gpus);
};

// NVML's GPUs, but for those that sysfs knows as something else; a GPU that NVML lists without
// being able to say anything about it is the one of sysfs that nobody else is.
base::Result<std::vector<Gpu>> NodeGpus::Implementation::JoinWithNvml(const host::PciScan& scan,
                                                                      int stop_fd) {
  TRY_ASSIGN(const auto inventory, library->ReadInventory());
  const bool knows_mig = KnowsMig(inventory.library_version);
  std::map<gpu::PciAddress, Gpu> gpus;
  std::vector<base::Error> lost;
  for (const auto& device : inventory.devices) {
    if (device.fault && device.pci == gpu::PciAddress{}) {
      lost.push_back(*device.fault);
      continue;
    }
    gpus[device.pci] = ReadWithNvml(device);
  }
  for (const auto& device : scan.devices) {
    const auto known = gpus.find(device.address);
    if (known != gpus.end() && !device.is_display_controller()) gpus.erase(known);
  }
  for (const auto& device : host::NvidiaGpus(scan)) {
    auto known = gpus.find(device.address);
    if (known == gpus.end() && !lost.empty()) {
      Gpu gpu{.pci = device.address, .id = {}};
      BecomeUnknown(lost.front(), gpu);
      lost.erase(lost.begin());
      known = gpus.emplace(device.address, std::move(gpu)).first;
    }
    if (known == gpus.end()) continue;
    known->second.id = IdOf(device);
    if (!knows_mig) {
      TRY_ASSIGN(const Gpu by_registers, ReadWithRegisters(device, stop_fd));
      known->second.mode = by_registers.mode;
    }
  }
  if (!lost.empty()) {
    return base::Fail(lost.front().Within(
        "a GPU cannot be read, not even its PCI address, so positions of GPUs are unknown"));
  }
  uses_registers = !knows_mig;
  std::vector<Gpu> list;
  for (auto& [address, gpu] : gpus) list.push_back(std::move(gpu));
  return list;
}

base::Result<std::vector<Gpu>> NodeGpus::Implementation::Read(int stop_fd) {
  TRY(Open());
  TRY_ASSIGN(const auto scan, Scan());
  // As upstream: with one device unread nobody knows which position is which GPU.
  if (!scan.failures.empty()) return base::Fail(scan.failures.front());
  std::vector<Gpu> gpus;
  if (library != nullptr) {
    TRY_ASSIGN(gpus, JoinWithNvml(scan, stop_fd));
  } else {
    for (const auto& device : host::NvidiaGpus(scan)) {
      TRY_ASSIGN(Gpu gpu, ReadWithRegisters(device, stop_fd));
      gpus.push_back(std::move(gpu));
    }
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].position = static_cast<int>(i);
  return gpus;
}

// nvidia-smi of the driver's root, or of the first folder that has one.
base::Status NodeGpus::Implementation::ResetWithSmi(const std::vector<Gpu>& gpus) {
  std::vector<std::string> addresses;
  for (const Gpu& gpu : gpus) addresses.push_back(gpu.pci.SysfsName());
  host::ProgramRun run;
  run.arguments = {"--gpu-reset", "-i", base::Join(addresses, ",")};
  run.capture_output = true;
  base::Error missing;
  for (const auto& path : settings.driver_roots) {
    const host::Root root(path);
    const auto program = host::FindProgram(root, host::kSmiProgram);
    if (!program) {
      missing = program.error();
      continue;
    }
    if (root.is_own()) {
      run.program = program->string();
    } else {
      TRY_ASSIGN(const auto inside, root.Strip(*program));
      run.program = inside.string();
      run.root = path;
    }
    TRY_ASSIGN(const auto end, host::RunProgram(run));
    if (end.exit_status == 0) return {};
    const std::string said(base::Trim(end.output + end.error_output));
    return base::Fail(
        base::Error{base::Code::kConflict, "ResetFailed",
                    fmt::format("error resetting GPUs {}: nvidia-smi ended with status {}: {}",
                                base::Join(addresses, ","), end.exit_status, said)});
  }
  return base::Fail(missing.Within("error resetting GPUs " + base::Join(addresses, ",")));
}

NodeGpus::NodeGpus(NodeSettings settings)
    : implementation_(std::make_unique<Implementation>(std::move(settings))) {}
NodeGpus::~NodeGpus() = default;

base::Result<std::vector<Gpu>> NodeGpus::Read(int stop_fd) {
  return implementation_->Read(stop_fd);
}

bool NodeGpus::has_driver() const {
  return implementation_->library != nullptr && !implementation_->uses_registers;
}

base::Result<bool> NodeGpus::SetMode(const Gpu& gpu, bool enabled) {
  if (implementation_->uses_registers) {
    const auto folder = implementation_->FolderOf(gpu);
    TRY(RequestModeByRegisters(folder, enabled));
    TRY_ASSIGN(const auto mode, ReadModeRegisters(folder));
    return mode.current == enabled;
  }
  TRY_ASSIGN(const auto control, implementation_->ControlOf(gpu));
  const auto set = control->SetMode(enabled);
  // Somebody uses the GPU: the driver has noted the wish.
  if (!set && set.error().reason == "InUse") {
    TRY_ASSIGN(const auto mode, control->Mode());
    if (mode.pending == enabled) return mode.current == enabled;
  }
  return set;
}

base::Status NodeGpus::Clear(const Gpu& gpu) {
  TRY_ASSIGN(const auto control, implementation_->ControlOf(gpu));
  TRY_ASSIGN(const auto instances, control->GpuInstances());
  for (const auto& instance : instances) {
    TRY_ASSIGN(const auto compute, control->ComputeInstances(instance.id));
    for (const auto& one : compute) TRY(control->DestroyComputeInstance(instance.id, one.id));
    TRY(control->DestroyGpuInstance(instance.id));
  }
  return {};
}

base::Status NodeGpus::Create(const Gpu& gpu, const Layout& layout) {
  TRY_ASSIGN(const auto control, implementation_->ControlOf(gpu));
  for (const auto& wanted : layout.instances) {
    const Profile* profile = FindGpuInstanceProfile(gpu, wanted.profile);
    if (profile == nullptr) {
      return base::Fail(base::Invalid(
          "NoSuchProfile",
          fmt::format("{} has no GPU instance profile with NVML's number {}; it has {}",
                      gpu.Title(), wanted.profile, DescribeProfiles(gpu))));
    }
    std::optional<nvml::Placement> place;
    if (wanted.placement) place = {wanted.placement->start, wanted.placement->size};
    TRY_ASSIGN(const auto made, control->CreateGpuInstance(profile->id, place));
    TRY_ASSIGN(const auto known, control->ComputeInstanceProfiles(made.id));
    for (const auto& compute : wanted.compute) {
      const auto found = std::ranges::find(known, compute.profile, &nvml::InstanceProfile::index);
      if (found == known.end()) {
        return base::Fail(base::Invalid(
            "NoSuchProfile",
            fmt::format("{}: its GPU instances of {} slices have no compute instances of {} slices",
                        gpu.Title(), gpu::GpuInstanceSlices(wanted.profile),
                        gpu::ComputeInstanceSlices(compute.profile))));
      }
      std::optional<nvml::Placement> at;
      if (compute.placement) at = {compute.placement->start, compute.placement->size};
      TRY(control->CreateComputeInstance(made.id, found->id, at));
    }
  }
  return {};
}

base::Result<std::vector<std::string>> NodeGpus::Users(const Gpu& gpu) {
  std::vector<std::string> users;
  if (implementation_->library == nullptr || gpu.uuid.empty()) return users;
  const auto readings = implementation_->library->ReadReadings(gpu.uuid);
  if (!readings) return base::Fail(readings.error());
  for (const auto& process : readings->processes) {
    const auto name = std::filesystem::path(process.name).filename().string();
    users.push_back(fmt::format("{} ({})", name.empty() ? "process" : name, process.pid));
  }
  std::ranges::sort(users);
  users.erase(std::ranges::unique(users).begin(), users.end());
  return users;
}

base::Status NodeGpus::Reset(const std::vector<Gpu>& gpus) {
  const bool by_driver = implementation_->library != nullptr;
  Close();
  if (by_driver) return implementation_->ResetWithSmi(gpus);
  for (const Gpu& gpu : gpus) {
    if (const auto reset = host::ResetDevice(implementation_->settings.root, gpu.pci); !reset) {
      return base::Fail(reset.error().Within("error resetting " + gpu.Title()));
    }
  }
  return {};
}

void NodeGpus::Close() { implementation_->library.reset(); }

}  // namespace pitcrew::node::mig

#include "simulation/description/description.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "gpu/mig_profile.h"
#include "gpu/pci_address.h"
#include "simulation/description/mapping.h"
#include "simulation/description/profiles.h"
#include "simulation/state/identity.h"
#include "simulation/state/mig.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

// CUDA versions of driver branches, newest first.
struct Branch {
  unsigned major;
  std::uint32_t cuda;
};
constexpr std::array kBranches = {Branch{590, 13010}, Branch{580, 13000}, Branch{575, 12090},
                                  Branch{570, 12080}, Branch{565, 12070}, Branch{560, 12060},
                                  Branch{555, 12050}, Branch{550, 12040}, Branch{545, 12030},
                                  Branch{535, 12020}, Branch{530, 12010}, Branch{525, 12000},
                                  Branch{515, 11070}, Branch{470, 11040}, Branch{450, 11000}};

// PCI buses of the GPUs of an eight-GPU server; further GPUs sit on the buses behind them.
constexpr std::array<std::uint32_t, 8> kBuses = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf};

constexpr std::uint32_t kVgaController = 0x030000;

struct Entry {
  Mapping mapping;
  std::uint32_t first;
  std::uint32_t count;
};

// What a GPU gets from its place on the node unless the description says otherwise.
void Place(NodeState& node, std::uint32_t index, std::uint32_t total) {
  GpuState& gpu = node.gpus[index];
  const std::string own = std::string(node.node_name) + "/gpu/" + std::to_string(index);
  CopyText(gpu.uuid, "GPU-" + NamedUuid(own));
  CopyText(gpu.serial, NamedSerial(own));
  gpu.minor_number = index;
  gpu.pci_bus = kBuses[index % kBuses.size()] + index / static_cast<std::uint32_t>(kBuses.size());
  gpu.numa_node = total > 1 && index >= (total + 1) / 2 ? 1 : 0;
  gpu.energy_since = node.created;
  if (gpu.module_id == kModuleIsSlot) gpu.module_id = index + 1;
  // An HGX board registers with its fabric manager, without a cluster: a public listing of eight
  // H100 shows state completed, clique 0 and a cluster UUID of zeros.
  constexpr std::uint32_t kHopper = 9;
  constexpr std::uint32_t kCompleted = 3;
  if (gpu.architecture >= kHopper && gpu.link_peers == LinkPeers::kSwitch) {
    gpu.fabric_state = kCompleted;
  }
}

void ReadLinks(Mapping& entry, GpuState& gpu) {
  if (!entry.Has("nvlink")) return;
  Mapping nvlink = entry.Inner("nvlink", "nvlink");
  constexpr std::string_view kPeers[] = {"none", "switch", "direct"};
  gpu.link_peers = static_cast<LinkPeers>(
      nvlink.Word("peers", kPeers, static_cast<std::size_t>(gpu.link_peers)));
  gpu.link_count =
      static_cast<std::uint32_t>(nvlink.Unsigned("links", 0, kMaxNvLinks, gpu.link_count));
  // Where the driver does not use the links, there is no fabric to be part of.
  if (gpu.link_count == 0 || gpu.link_peers == LinkPeers::kNone) gpu.fabric_state = 0;
  nvlink.RefuseOthers();
}

void ReadFabric(Mapping& entry, GpuState& gpu) {
  if (!entry.Has("fabric")) return;
  Mapping fabric = entry.Inner("fabric", "fabric");
  constexpr std::string_view kStates[] = {"not-supported", "not-started", "in-progress",
                                          "completed"};
  std::string cluster = fabric.Text("cluster");
  std::erase(cluster, '-');
  bool good = cluster.size() == 32;
  for (std::size_t i = 0; good && i < 16; ++i) {
    unsigned byte = 0;
    good = std::sscanf(cluster.substr(2 * i, 2).c_str(), "%2x", &byte) == 1;
    gpu.fabric_cluster[i] = static_cast<std::uint8_t>(byte);
  }
  if (!good) fabric.Fail("cluster", "\"cluster\" must be a UUID");
  gpu.fabric_clique = static_cast<std::uint32_t>(fabric.Unsigned("clique", 0, 0xffffffff));
  gpu.fabric_state = static_cast<std::uint32_t>(fabric.Word("state", kStates, 3));
  fabric.RefuseOthers();
}

// What is wrong with a GPU from the start. Nobody can have heard of it yet, so there are no events.
void ReadFaults(Mapping& entry, GpuState& gpu) {
  if (!entry.Has("faults")) return;
  Mapping faults = entry.Inner("faults", "the faults");
  gpu.lost = faults.Boolean("lost", false) ? 1 : 0;
  gpu.unknown_error = faults.Boolean("unknown_error", false) ? 1 : 0;
  gpu.slow_milliseconds = static_cast<std::uint32_t>(faults.Unsigned("slow", 0, 600000, 0));
  if (faults.Boolean("hangs", false)) gpu.slow_milliseconds = kHangs;
  constexpr std::string_view kRecovery[] = {"none", "reset", "reboot", "drain-p2p",
                                            "drain-and-reset"};
  gpu.recovery_action = static_cast<std::uint32_t>(faults.Word("recovery", kRecovery, 0));
  Mapping rows = faults.Inner("rows", "the remapped rows");
  constexpr std::uint64_t kMostRows = 512;
  gpu.remapped_correctable =
      static_cast<std::uint32_t>(rows.Unsigned("correctable", 0, kMostRows, 0));
  gpu.remapped_uncorrectable =
      static_cast<std::uint32_t>(rows.Unsigned("uncorrectable", 0, kMostRows, 0));
  gpu.remap_pending = rows.Boolean("pending", false) ? 1 : 0;
  gpu.remap_failure = rows.Boolean("failure", false) ? 1 : 0;
  rows.RefuseOthers();
  faults.RefuseOthers();
}

// Settings of a single GPU, allowed only where the entry describes exactly one.
void ReadSingle(Mapping& entry, std::uint32_t count, GpuState& gpu) {
  constexpr std::array<std::string_view, 4> kSingle = {"uuid", "serial", "pci", "minor"};
  for (const auto key : kSingle) {
    if (entry.Has(key) && count != 1) {
      entry.Fail(key, "\"" + std::string(key) +
                          "\" belongs to one GPU; give this GPU an entry of its own with count 1");
    }
  }
  const std::string uuid = entry.Text("uuid", gpu.uuid);
  if (!uuid.starts_with("GPU-") || uuid.size() >= sizeof(gpu.uuid)) {
    entry.Fail("uuid", "\"uuid\" must look like GPU-5c3a9e32-7f0e-5d6d-8b57-5a4f0e3c2f11");
  }
  CopyText(gpu.uuid, uuid);
  CopyText(gpu.serial, entry.Text("serial", gpu.serial));
  gpu.minor_number = static_cast<std::uint32_t>(entry.Unsigned("minor", 0, 254, gpu.minor_number));
  if (const std::string pci = entry.Text("pci", ""); !pci.empty()) {
    const auto address = gpu::PciAddress::Parse(pci);
    if (!address) {
      entry.Fail("pci", address.error().message);
    } else {
      gpu.pci_domain = address->domain;
      gpu.pci_bus = address->bus;
      gpu.pci_device = address->device;
      gpu.pci_function = address->function;
    }
  }
}

void ReadGpu(Mapping& entry, std::uint32_t count, GpuState& gpu, std::int64_t created) {
  ReadSingle(entry, count, gpu);
  CopyText(gpu.name, entry.Text("name", gpu.name));
  gpu.memory_total =
      entry.Unsigned("memory_mib", gpu.memory_reserved >> 20, 1 << 24, gpu.memory_total >> 20)
      << 20;
  gpu.numa_node = static_cast<std::int32_t>(entry.Signed("numa", -1, 1023, gpu.numa_node));
  gpu.pcie_switch = static_cast<std::uint32_t>(entry.Unsigned("pcie_switch", 0, 255, 0));
  gpu.load = static_cast<std::uint32_t>(entry.Unsigned("load", 0, 100, 0));
  gpu.energy_since = created;
  const bool ecc = entry.Boolean("ecc", gpu.ecc_current != 0);
  if (ecc && gpu.ecc_supported == 0) entry.Fail("ecc", "this GPU model has no ECC");
  gpu.ecc_current = gpu.ecc_pending = ecc ? 1 : 0;
  constexpr std::string_view kModes[] = {"none", "passthrough"};
  gpu.virtualization_mode = static_cast<std::uint32_t>(entry.Word("virtualization", kModes, 0));
  gpu.addressing_mode =
      static_cast<std::uint32_t>(entry.Word("addressing", kAddressingModes, gpu.addressing_mode));
  ReadLinks(entry, gpu);
  ReadFabric(entry, gpu);
  ReadFaults(entry, gpu);
  if (entry.Boolean("graphics", false)) gpu.pci_class = kVgaController;
}

// What is no part of the NVML state: the card's place among the machine's PCI devices.
void ReadCard(Mapping& entry, CardDescription& card, bool graphics) {
  card.boot_display = entry.Boolean("boot_display", false);
  card.foreign_in_group = entry.Boolean("foreign_in_group", false);
  card.audio = graphics;
  if (!entry.Has("functions")) return;
  constexpr std::string_view kFunctions[] = {"audio", "usb", "ucsi"};
  card.audio = false;
  for (const auto& word : entry.Texts("functions")) {
    if (word == kFunctions[0]) {
      card.audio = true;
    } else if (word == kFunctions[1]) {
      card.usb = true;
    } else if (word == kFunctions[2]) {
      card.ucsi = true;
    } else {
      entry.Fail("functions", "\"functions\" lists audio, usb and ucsi, not \"" + word + "\"");
    }
  }
}

void ReadKernel(Mapping& root, PlatformDescription& platform) {
  platform.switches = static_cast<std::uint32_t>(root.Unsigned("nvswitches", 0, 16, 0));
  Mapping kernel = root.Inner("kernel", "the kernel");
  platform.kernel.iommu = kernel.Boolean("iommu", true);
  platform.kernel.vfio = kernel.Boolean("vfio", true);
  platform.kernel.iommufd = kernel.Boolean("iommufd", false);
  constexpr std::string_view kFrameworks[] = {"none", "mdev", "vendor"};
  platform.kernel.framework =
      static_cast<sysfs::VgpuFramework>(kernel.Word("vgpu", kFrameworks, 0));
  constexpr std::string_view kProtections[] = {"none", "tdx", "snp"};
  platform.kernel.confidential =
      static_cast<sysfs::HostProtection>(kernel.Word("confidential", kProtections, 0));
  if (kernel.Has("variants")) platform.kernel.variants = kernel.Texts("variants");
  kernel.RefuseOthers();
}

// The GPU's profile and compute profile of that name.
std::optional<std::pair<const GpuProfile*, const ComputeProfile*>> FindNamed(
    const GpuState& gpu, const std::string& name) {
  for (const auto& profile : std::span(gpu.profiles, gpu.profile_count)) {
    for (const auto& compute : std::span(profile.compute_profiles, profile.compute_profile_count)) {
      const auto found =
          gpu::NameMigProfile(profile.index, compute.index, profile.memory_mib, gpu.memory_total);
      if (found && found->Name() == name) return std::pair{&profile, &compute};
    }
  }
  return std::nullopt;
}

std::string NamesOf(const GpuState& gpu) {
  std::string names;
  for (const auto& profile : std::span(gpu.profiles, gpu.profile_count)) {
    for (const auto& compute : std::span(profile.compute_profiles, profile.compute_profile_count)) {
      if (compute.slices != profile.slices) continue;
      const auto name =
          gpu::NameMigProfile(profile.index, compute.index, profile.memory_mib, gpu.memory_total);
      if (name) names += (names.empty() ? "" : ", ") + name->Name();
    }
  }
  return names;
}

struct WantedInstance {
  const GpuProfile* profile;
  const ComputeProfile* compute;
  std::uint64_t count;
  YAML::Mark mark;
};

void CreateInstances(Mapping& mig, NodeState& node, GpuState& gpu,
                     std::vector<WantedInstance> wanted) {
  // Largest first, which fits whatever fits at all.
  std::ranges::stable_sort(wanted, std::greater{}, [](const WantedInstance& w) {
    return std::tuple(w.profile->slices, w.profile->placement_size);
  });
  for (const auto& one : wanted) {
    for (std::uint64_t i = 0; i < one.count; ++i) {
      std::uint64_t instance = 0;
      std::uint64_t compute = 0;
      if (CreateGpuInstance(node, gpu, one.profile->id, std::nullopt, instance) != 0 ||
          CreateComputeInstance(node, gpu, instance, one.compute->id, std::nullopt, compute) != 0) {
        mig.source().Fail(one.mark, "these MIG devices do not fit together on one GPU");
        return;
      }
    }
  }
}

void ReadMig(Mapping& entry, NodeState& node, GpuState& gpu) {
  if (!entry.Has("mig")) return;
  Mapping mig = entry.Inner("mig", "mig");
  const bool enabled = mig.Boolean("enabled");
  if (enabled && gpu.mig_capable == 0) {
    mig.Fail("enabled", std::string("a ") + gpu.name + " has no MIG");
    return;
  }
  gpu.mig_current = gpu.mig_pending = enabled ? 1 : 0;
  Mapping devices = mig.Inner("devices", "the MIG devices");
  std::vector<WantedInstance> wanted;
  for (const auto& member : devices.Members()) {
    const auto found = FindNamed(gpu, member.key);
    const auto count = ParseNumber(member.value);
    if (!enabled) {
      devices.source().Fail(member.value.Mark(), "MIG devices need \"enabled: true\"");
    } else if (!found) {
      devices.source().Fail(member.value.Mark(), "this GPU has no MIG profile \"" + member.key +
                                                     "\"; it has " + NamesOf(gpu));
    } else if (!count || *count > kMaxGpuInstances) {
      devices.source().Fail(member.value.Mark(), "the count of \"" + member.key +
                                                     "\" must be a whole number from 0 to 8");
    } else {
      wanted.push_back({found->first, found->second, *count, member.value.Mark()});
    }
  }
  mig.RefuseOthers();
  if (!mig.source().error) CreateInstances(mig, node, gpu, std::move(wanted));
}

void ReadDriver(Mapping& root, const DescriptionOptions& options, NodeState& node) {
  Mapping driver = root.Inner("driver", "the driver");
  std::string version = driver.Text("version", kDefaultDriverVersion);
  if (!options.driver_version.empty()) version = options.driver_version;
  const auto cuda = CudaVersionOf(version);
  if (!cuda) driver.Fail("version", cuda.error().message);
  CopyText(node.driver_version, version);
  node.cuda_version = cuda.value_or(0);
  if (const std::string text = driver.Text("cuda", ""); !text.empty()) {
    unsigned major = 0;
    unsigned minor = 0;
    if (std::sscanf(text.c_str(), "%u.%u", &major, &minor) != 2) {
      driver.Fail("cuda", "\"cuda\" must look like \"13.0\"");
    }
    if (options.driver_version.empty()) node.cuda_version = 1000 * major + 10 * minor;
  }
  driver.RefuseOthers();
}

// Positions and models of all GPUs, before their own settings: a place depends on the total.
std::vector<Entry> ReadEntries(Mapping& root, const DescriptionOptions& options, NodeState& node) {
  std::vector<Entry> entries;
  for (auto& mapping : root.Inners("gpus", "a GPU")) {
    const std::string profile = mapping.Text("profile");
    const auto count = static_cast<std::uint32_t>(mapping.Unsigned("count", 1, kMaxGpus, 1));
    if (node.gpu_count + count > kMaxGpus) {
      mapping.Fail("count", "a node can have " + std::to_string(kMaxGpus) + " GPUs at most");
    }
    if (root.source().error) break;
    const auto gpu = LoadProfile(profile, options.profile_folder);
    if (!gpu) {
      mapping.Fail("profile", gpu.error().message);
      break;
    }
    entries.push_back({mapping, node.gpu_count, count});
    for (std::uint32_t i = 0; i < count; ++i) node.gpus[node.gpu_count++] = *gpu;
  }
  return entries;
}

void RefuseDoubles(Source& source, const NodeState& node) {
  const std::span gpus(node.gpus, node.gpu_count);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const GpuState& a = gpus[i];
      const GpuState& b = gpus[j];
      const char* what = nullptr;
      if (std::strcmp(a.uuid, b.uuid) == 0) what = "UUID";
      if (a.minor_number == b.minor_number) what = "minor number";
      if (std::tie(a.pci_domain, a.pci_bus, a.pci_device, a.pci_function) ==
          std::tie(b.pci_domain, b.pci_bus, b.pci_device, b.pci_function)) {
        what = "PCI address";
      }
      if (what == nullptr) continue;
      source.Fail(YAML::Mark::null_mark(), "GPUs " + std::to_string(j) + " and " +
                                               std::to_string(i) + " have the same " + what);
    }
  }
}

}  // namespace

base::Result<std::uint32_t> CudaVersionOf(const std::string& driver_version) {
  unsigned major = 0;
  const auto parts = base::Split(driver_version, '.');
  const bool numbers = std::ranges::all_of(
      parts, [](const std::string& part) { return base::ParseUnsigned(part).has_value(); });
  if (!numbers || parts.size() < 2 || parts.size() > 3 || driver_version.size() > 31) {
    return base::Fail(
        base::Invalid("InvalidDriverVersion",
                      "\"" + driver_version + "\" is no driver version; it looks like 580.95.05"));
  }
  major = static_cast<unsigned>(*base::ParseUnsigned(parts[0]));
  for (const auto& branch : kBranches) {
    if (major >= branch.major) return branch.cuda;
  }
  return kBranches.back().cuda;
}

base::Result<Description> ParseWholeDescription(const std::string& text,
                                                const std::string& source_name,
                                                const DescriptionOptions& options) {
  Source source{source_name, {}};
  Mapping root(source, ParseDocument(source, text), "the description");
  Description description{};
  NodeState& node = description.node;
  node.created = RealtimeNow();
  node.description_hash = base::HashFnv1a32(text);
  CopyText(node.node_name, root.Text("node", options.node_name));
  ReadDriver(root, options, node);
  const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  node.cpus = static_cast<std::uint32_t>(
      root.Unsigned("cpus", 1, 4096, cpus > 0 ? static_cast<std::uint64_t>(cpus) : 1));
  auto entries = ReadEntries(root, options, node);
  ReadKernel(root, description.platform);
  for (auto& entry : entries) {
    for (std::uint32_t i = entry.first; i < entry.first + entry.count; ++i) {
      Place(node, i, node.gpu_count);
      ReadGpu(entry.mapping, entry.count, node.gpus[i], node.created);
      ReadMig(entry.mapping, node, node.gpus[i]);
      ReadCard(entry.mapping, description.platform.cards[i],
               node.gpus[i].pci_class == kVgaController);
    }
    entry.mapping.RefuseOthers();
  }
  for (const auto& gpu : std::span(node.gpus, node.gpu_count)) {
    node.numa_nodes =
        std::max(node.numa_nodes, static_cast<std::uint32_t>(std::max(gpu.numa_node, -1) + 1));
  }
  root.RefuseOthers();
  if (!source.error) RefuseDoubles(source, node);
  if (source.error) return base::Fail(*source.error);
  return description;
}

base::Result<NodeState> ParseDescription(const std::string& text, const std::string& source,
                                         const DescriptionOptions& options) {
  TRY_ASSIGN(const auto description, ParseWholeDescription(text, source, options));
  return description.node;
}

base::Result<NodeState> LoadDescription(const std::filesystem::path& path,
                                        const DescriptionOptions& options) {
  TRY_ASSIGN(const std::string text, base::ReadFile(path));
  return ParseDescription(text, path.string(), options);
}

}  // namespace pitcrew::simulation

#include "simulation/description/profiles.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/file.h"
#include "gpu/mig_profile.h"
#include "simulation/description/mapping.h"
#include "simulation/description/vgpu.h"

namespace pitcrew::simulation {
namespace {

constexpr std::uint64_t kMib = 1ull << 20;
constexpr std::uint32_t kNvidiaVendor = 0x10de;

struct Named {
  std::string_view word;
  std::uint32_t number;
};
// NVML's numbers (feature-discovery.md section 14).
constexpr std::array kArchitectures = {Named{"turing", 6},     Named{"ampere", 7},
                                       Named{"ada", 8},        Named{"hopper", 9},
                                       Named{"blackwell", 10}, Named{"rubin", 13}};
constexpr std::array kBrands = {Named{"nvidia", 14}, Named{"tesla", 2}, Named{"quadro-rtx", 12},
                                Named{"nvidia-rtx", 13}, Named{"geforce-rtx", 15}};

template <std::size_t N>
std::uint32_t NumberOf(Mapping& mapping, std::string_view key, const std::array<Named, N>& table) {
  std::array<std::string_view, N> words;
  for (std::size_t i = 0; i < N; ++i) words[i] = table[i].word;
  return table[mapping.Word(key, words)].number;
}

std::uint32_t U32(Mapping& mapping, std::string_view key, std::uint64_t low, std::uint64_t high,
                  std::optional<std::uint64_t> fallback = std::nullopt) {
  return static_cast<std::uint32_t>(mapping.Unsigned(key, low, high, fallback));
}

void ReadIdentity(Mapping& root, GpuState& gpu) {
  CopyText(gpu.name, root.Text("name"));
  gpu.brand = NumberOf(root, "brand", kBrands);
  gpu.architecture = NumberOf(root, "architecture", kArchitectures);
  const std::string capability = root.Text("compute_capability");
  if (std::sscanf(capability.c_str(), "%d.%d", &gpu.compute_major, &gpu.compute_minor) != 2) {
    root.Fail("compute_capability", "\"compute_capability\" must look like \"9.0\"");
  }
  Mapping board = root.Inner("board", "the board");
  CopyText(gpu.board_part_number, board.Text("part_number", ""));
  CopyText(gpu.vbios_version, board.Text("vbios", ""));
  CopyText(gpu.inforom_version, board.Text("inforom", ""));
  CopyText(gpu.inforom_oem, board.Text("oem_object", ""));
  CopyText(gpu.inforom_ecc, board.Text("ecc_object", ""));
  board.RefuseOthers();
  Mapping pci = root.Inner("pci", "pci");
  gpu.pci_device_id = U32(pci, "device", 1, 0xffff) << 16 | kNvidiaVendor;
  gpu.pci_subsystem_id = U32(pci, "subsystem", 0, 0xffffffff);
  gpu.pci_class = U32(pci, "class", 0x030000, 0x03ffff, 0x030200);
  gpu.pcie_generation = U32(pci, "generation", 1, 7);
  gpu.pcie_width = U32(pci, "width", 1, 32);
  pci.RefuseOthers();
}

void ReadHardware(Mapping& root, GpuState& gpu) {
  gpu.multiprocessors = U32(root, "multiprocessors", 1, 1024);
  gpu.cores = U32(root, "cores", 1, 1 << 20);
  Mapping memory = root.Inner("memory", "memory");
  gpu.memory_total = memory.Unsigned("total_mib", 1, 1 << 24) * kMib;
  gpu.memory_reserved = memory.Unsigned("reserved_mib", 0, gpu.memory_total / kMib) * kMib;
  gpu.memory_bus_width = U32(memory, "bus_width", 1, 1 << 16);
  gpu.bar1_total = memory.Unsigned("bar1_mib", 1, 1 << 24) * kMib;
  memory.RefuseOthers();
  Mapping clocks = root.Inner("clocks", "clocks");
  const auto sm = clocks.Unsigneds("sm", 2, 2, 100000);
  const auto memory_clock = clocks.Unsigneds("memory", 2, 2, 100000);
  gpu.sm_clock_idle = static_cast<std::uint32_t>(sm[0]);
  gpu.sm_clock_max = static_cast<std::uint32_t>(sm[1]);
  gpu.memory_clock_idle = static_cast<std::uint32_t>(memory_clock[0]);
  gpu.memory_clock_max = static_cast<std::uint32_t>(memory_clock[1]);
  gpu.memory_clock_low = U32(clocks, "memory_low", 0, gpu.memory_clock_max, 0);
  gpu.video_clock_max = U32(clocks, "video", 1, 100000);
  gpu.video_clock_idle = U32(clocks, "video_idle", 0, gpu.video_clock_max, 0);
  clocks.RefuseOthers();
  Mapping power = root.Inner("power", "power");
  gpu.power_idle = 1000 * U32(power, "idle", 1, 10000);
  gpu.power_min = 1000 * U32(power, "min", 1, 10000);
  gpu.power_max = gpu.power_limit = 1000 * U32(power, "max", 1, 10000);
  power.RefuseOthers();
  Mapping temperature = root.Inner("temperature", "temperature");
  gpu.temperature_idle = U32(temperature, "idle", 1, 150);
  gpu.temperature_full = U32(temperature, "full", 1, 150);
  gpu.temperature_max_operating = U32(temperature, "max_operating", 1, 150);
  gpu.temperature_slowdown = U32(temperature, "slowdown", 1, 150);
  gpu.temperature_shutdown = U32(temperature, "shutdown", 1, 150);
  gpu.memory_temperature_max = U32(temperature, "memory_max", 0, 150, 0);
  temperature.RefuseOthers();
  constexpr std::string_view kFans[] = {"none", "passive", "active"};
  gpu.fan = static_cast<std::uint32_t>(root.Word("fan", kFans));
  gpu.remap_banks = U32(root, "remap_banks", 0, 1 << 16, 0);
  gpu.addressing_mode = static_cast<std::uint32_t>(root.Word("addressing", kAddressingModes, 1));
  // "slot": the position on the baseboard, which the description knows.
  const std::string module = root.Text("module_id", "0");
  const auto number = ParseNumber(YAML::Node(module));
  if (!number && module != "slot") {
    root.Fail("module_id", "\"module_id\" must be a number, or slot: the GPU's place on its board");
  }
  gpu.module_id = module == "slot" ? kModuleIsSlot : static_cast<std::uint32_t>(number.value_or(0));
  gpu.ecc_supported = gpu.ecc_current = gpu.ecc_pending = root.Boolean("ecc") ? 1 : 0;
  Mapping nvlink = root.Inner("nvlink", "nvlink");
  constexpr std::string_view kPeers[] = {"none", "switch", "direct"};
  gpu.link_count = U32(nvlink, "links", 0, kMaxNvLinks, 0);
  gpu.link_version = U32(nvlink, "version", 0, 10, 0);
  gpu.link_speed_mbps = U32(nvlink, "speed_mbps", 0, 1 << 24, 0);
  gpu.link_peers = static_cast<LinkPeers>(nvlink.Word("peers", kPeers, 0));
  nvlink.RefuseOthers();
}

// A compute instance over all slices of its GPU instance has all its multiprocessors; a smaller one
// has those of as many single slices (public listings of compute instances on A100).
std::uint32_t ComputeMultiprocessors(const GpuProfile& profile, std::uint32_t slices,
                                     std::uint32_t of_one_slice) {
  return slices == profile.slices ? profile.multiprocessors : slices * of_one_slice;
}

void ReadComputeProfiles(Mapping& entry, std::uint32_t of_one_slice, GpuProfile& profile) {
  Mapping compute = entry.Inner("compute", "the compute instances of a MIG profile");
  for (const auto& member : compute.Members()) {
    const auto index = ParseNumber(YAML::Node(member.key));
    const auto count = ParseNumber(member.value);
    if (!index || *index >= kMaxComputeProfiles || !count || *count == 0 ||
        profile.compute_profile_count == kMaxComputeProfiles) {
      compute.source().Fail(member.value.Mark(),
                            "\"compute\" maps compute instance profile indices (0 to 8) to how "
                            "many fit, for example {0: 2, 1: 1}");
      return;
    }
    const auto slices =
        static_cast<std::uint32_t>(gpu::ComputeInstanceSlices(static_cast<unsigned>(*index)));
    profile.compute_profiles[profile.compute_profile_count++] = {
        static_cast<std::uint32_t>(*index), static_cast<std::uint32_t>(*index), slices,
        static_cast<std::uint32_t>(*count), ComputeMultiprocessors(profile, slices, of_one_slice)};
  }
  compute.RefuseOthers();
}

// `of_one_slice`: the multiprocessors of the GPU's smallest profile, which comes first.
GpuProfile ReadMigProfile(Mapping& entry, bool p2p, std::uint32_t of_one_slice) {
  GpuProfile profile{};
  profile.index = U32(entry, "index", 0, kMaxGpuInstanceProfiles - 1);
  profile.id = U32(entry, "id", 0, 255);
  profile.slices = static_cast<std::uint32_t>(gpu::GpuInstanceSlices(profile.index));
  profile.max_instances = U32(entry, "count", 1, kMaxGpuInstances);
  profile.multiprocessors = U32(entry, "multiprocessors", 1, 1024);
  profile.memory_mib = entry.Unsigned("memory_mib", 1, 1 << 24);
  profile.p2p = p2p ? 1 : 0;
  Mapping engines = entry.Inner("engines", "engines");
  profile.copy_engines = U32(engines, "copy", 0, 64, 0);
  profile.decoders = U32(engines, "decoder", 0, 64, 0);
  profile.encoders = U32(engines, "encoder", 0, 64, 0);
  profile.jpegs = U32(engines, "jpeg", 0, 64, 0);
  profile.ofas = U32(engines, "ofa", 0, 64, 0);
  engines.RefuseOthers();
  Mapping placements = entry.Inner("placements", "placements");
  profile.placement_size = U32(placements, "size", 1, kMaxMemorySlices);
  for (const auto start : placements.Unsigneds("starts", 1, kMaxPlacements, kMaxMemorySlices - 1)) {
    profile.placement_starts[profile.placement_count++] = static_cast<std::uint32_t>(start);
  }
  placements.RefuseOthers();
  ReadComputeProfiles(entry, of_one_slice != 0 ? of_one_slice : profile.multiprocessors, profile);
  entry.RefuseOthers();
  return profile;
}

void ReadMig(Mapping& root, GpuState& gpu) {
  if (!root.Has("mig")) return;
  Mapping mig = root.Inner("mig", "mig");
  gpu.mig_capable = 1;
  gpu.max_mig_devices = U32(mig, "max_devices", 1, kMaxGpuInstances);
  const bool p2p = mig.Boolean("p2p", false);
  for (auto& entry : mig.Inners("profiles", "a MIG profile")) {
    if (gpu.profile_count == kMaxGpuInstanceProfiles) {
      mig.Fail("profiles", "there are more than 18 MIG profiles");
      break;
    }
    const GpuProfile profile = ReadMigProfile(entry, p2p, gpu.profiles[0].multiprocessors);
    gpu.profiles[gpu.profile_count++] = profile;
  }
  mig.RefuseOthers();
}

}  // namespace

std::vector<std::string> ProfileNames(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& profile : EmbeddedProfiles()) names.emplace_back(profile.name);
  std::error_code error;
  if (!folder.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

base::Result<GpuState> ParseProfile(const std::string& text, const std::string& source_name) {
  Source source{source_name, {}};
  Mapping root(source, ParseDocument(source, text), "a GPU profile");
  GpuState gpu{};
  ReadIdentity(root, gpu);
  ReadHardware(root, gpu);
  ReadMig(root, gpu);
  (void)ReadVgpus(root);
  root.RefuseOthers();
  if (source.error) return base::Fail(*source.error);
  return gpu;
}

base::Result<ProfileText> ReadProfileText(std::string_view name,
                                          const std::filesystem::path& folder) {
  if (!folder.empty() && name.find('/') == std::string_view::npos) {
    const auto path = folder / (std::string(name) + ".yaml");
    auto text = base::ReadFile(path);
    if (text) return ProfileText{*std::move(text), path.string()};
    if (text.error().code != base::Code::kNotFound) return base::Fail(text.error());
  }
  for (const auto& profile : EmbeddedProfiles()) {
    if (profile.name != name) continue;
    return ProfileText{std::string(profile.text), std::string(name) + ".yaml"};
  }
  std::string known;
  for (const auto& one : ProfileNames(folder)) known += (known.empty() ? "" : ", ") + one;
  return base::Fail(base::NotFound(
      "UnknownProfile",
      "there is no GPU profile \"" + std::string(name) + "\"; the profiles are " + known));
}

base::Result<GpuState> LoadProfile(std::string_view name, const std::filesystem::path& folder) {
  TRY_ASSIGN(const auto text, ReadProfileText(name, folder));
  auto gpu = ParseProfile(text.text, text.source);
  if (gpu) CopyText(gpu->profile, std::string(name));
  return gpu;
}

}  // namespace pitcrew::simulation

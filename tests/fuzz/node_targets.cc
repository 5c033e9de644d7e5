#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "api/plugin_config.h"
#include "base/clock.h"
#include "base/file.h"
#include "fuzz/files.h"
#include "fuzz/target.h"
#include "gpu/device_names.h"
#include "gpu/mig_profile.h"
#include "gpu/pci_address.h"
#include "gpu/xid_policy.h"
#include "host/kernel.h"
#include "host/mig_minors.h"
#include "host/modalias.h"
#include "host/mounts.h"
#include "host/os_release.h"
#include "host/pci.h"
#include "host/tegra.h"
#include "host/uevent.h"
#include "node/cc_mode/journal.h"
#include "node/metrics_exporter/counters.h"
#include "node/metrics_exporter/device_selection.h"
#include "node/metrics_exporter/pod_map.h"
#include "node/mig/checkpoint.h"
#include "node/mig/configuration.h"
#include "node/mig/hooks.h"
#include "node/nfd/config_texts.h"
#include "node/nfd/label_rules.h"
#include "node/nfd/master_config.h"
#include "node/nfd/sources.h"
#include "node/nfd/worker_config.h"
#include "node/toolkit/distribution.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/node_pods.h"
#include "node/toolkit/original_files.h"
#include "node/validations/status_folder.h"
#include "node/vfio/preflight.h"
#include "node/vgpu/configuration.h"
#include "node/vgpu/journal.h"

namespace pitcrew::fuzz {
namespace {

void ReadPluginConfig(std::string_view input) { (void)api::ParsePluginConfig(input, "input"); }

void ReadMigProfile(std::string_view input) {
  const auto profile = gpu::MigProfile::Parse(input);
  if (!profile) return;
  const auto again = gpu::MigProfile::Parse(profile->Name());
  Check(again && *again == *profile, "a profile's name is the profile");
}

void ReadSmallTexts(std::string_view input) {
  (void)gpu::ParseXidList(input);
  (void)gpu::XidPolicy::FromLists(input, "");
  (void)base::ParseGoDuration(input);
  (void)base::ParseRfc3339(input);
  (void)api::ParseSleepInterval(input);
  (void)node::validations::ParseDriverContainerReady(input);
}

// What is planned for any configuration can be planned again without a change.
void PlanEngine(node::toolkit::EngineKind kind, std::string_view input) {
  using namespace node::toolkit;
  EngineOptions options;
  options.kind = kind;
  options.config = "/etc/engine/config";
  if (kind == EngineKind::kContainerd) options.drop_in = "/etc/engine/conf.d/99-nvidia.toml";
  const auto source = ParseEngineConfig(kind, input, "input");
  if (!source) return;
  (void)LowLevelRuntimes(kind, *source);
  const auto runtimes = RuntimesFor(options, "/usr/local/nvidia/toolkit");
  EngineFiles files{.config = std::string(input), .drop_in = {}, .hook = {}};
  const auto planned = PlanSetup(options, runtimes, *source, files);
  if (!planned) return;
  for (const auto& file : *planned) {
    (file.path == options.config ? files.config : files.drop_in) = file.content;
  }
  const auto again = PlanSetup(options, runtimes, *source, files);
  Check(again.has_value(), "what was planned can be planned again");
  for (const auto& file : *again) {
    Check((file.path == options.config ? files.config : files.drop_in) == file.content,
          "a plan on its own result changes nothing");
  }
  (void)PlanCleanup(options, runtimes, files);
}

void ReadContainerdConfig(std::string_view input) {
  PlanEngine(node::toolkit::EngineKind::kContainerd, input);
}
void ReadCrioConfig(std::string_view input) { PlanEngine(node::toolkit::EngineKind::kCrio, input); }
void ReadDockerConfig(std::string_view input) {
  PlanEngine(node::toolkit::EngineKind::kDocker, input);
}

// The template of a Kubernetes distribution for its containerd: the node's owner may have one.
void ReadEngineTemplate(std::string_view input) {
  using namespace node::toolkit;
  const std::string tables = "[plugins.x]\n  a = 1\n";
  const std::string text(input);
  const auto put = PutIntoTemplate(text, tables);
  const auto taken = TakeFromTemplate(text);
  Check(put.has_value() == taken.has_value(), "both can be done, or neither");
  if (!put) return;
  const auto again = PutIntoTemplate(*put, tables);
  Check(again && *again == *put, "tables that are there are put there once");
  const auto without = TakeFromTemplate(*put);
  Check(without.has_value(), "what was put there can be taken away");
  if (!*without) return;
  const bool had_none = *taken && **taken == text && put->size() > text.size();
  Check(!had_none || **without == text || **without == text + "\n", "the rest is as it was");
}

// What a toolkit before this one has written down, or half written: of a change that is under way,
// and of the engine's files as they were.
void ReadEngineJournals(std::string_view input) {
  using namespace node::toolkit;
  static const Folder folder;
  const auto parts = Parts(input, 2);
  folder.Write("change/engine-change.json", parts[0]);
  const auto text = [&](const char* name) { return base::ReadFile(folder.path() / name); };
  if (const auto change = ReadEngineChange(folder.path() / "change"); change && *change) {
    Check(WriteEngineChange(folder.path() / "change", **change).has_value(), "it can be written");
    const auto written = text("change/engine-change.json");
    const auto again = ReadEngineChange(folder.path() / "change");
    Check(again && *again && WriteEngineChange(folder.path() / "change", **again),
          "a change that is written can be read");
    Check(text("change/engine-change.json") == written, "and is the same");
  }
  folder.Write("before.json", parts[1]);
  const auto originals = ReadOriginals(folder.path() / "before.json");
  if (!originals) return;
  for (const auto& original : *originals) (void)GoBack(original, std::string(parts[1]));
  Check(WriteOriginals(folder.path() / "again.json", *originals).has_value(), "it can be written");
  const auto again = ReadOriginals(folder.path() / "again.json");
  Check(again && *again == *originals, "originals that are written read as the same");
}

// Files of /proc and /etc, as texts.
void ReadProc(std::string_view input) {
  (void)host::ParseCharacterMajors(input);
  (void)host::ParseMigMinors(input);
  (void)host::MountPointsBelow(input, "/run/nvidia");
  const auto uid = node::toolkit::PodUidOf(input);
  Check(uid.find('/') == std::string::npos, "a pod's UID is no path");
  (void)host::ParseOsRelease(input);
  (void)host::ParseUevent(input);
  (void)node::nfd::ParseKernelVersion(input);
}

// Files of /proc and /sys that are read by their paths: one device with its attributes.
void ReadSysfs(std::string_view input) {
  static const Folder folder;
  const auto parts = Parts(input, 9);
  const std::filesystem::path device = "sys/bus/pci/devices/0000:65:00.0";
  folder.Write(device / "vendor", parts[0]);
  folder.Write(device / "device", parts[1]);
  folder.Write(device / "class", parts[2]);
  folder.Write(device / "numa_node", parts[3]);
  folder.Write(device / "sriov_totalvfs", parts[4]);
  folder.Write(device / "subsystem_vendor", parts[5]);
  folder.Write("proc/modules", parts[6]);
  folder.Write("proc/sys/kernel/osrelease", parts[7]);
  folder.Write("sys/module/nvidia/refcnt", parts[8]);
  (void)host::ReadPciDevices(folder.path() / "sys/bus/pci/devices");
  (void)host::ReadLoadedModules(folder.path() / "proc");
  (void)host::ReadKernelRelease(folder.path() / "proc");
  (void)host::ReadModuleReferences("nvidia", folder.path() / "sys");
  (void)gpu::PciAddress::Parse(parts[0]);
}

// What node feature discovery reads of a node.
void ReadNodeFeatures(std::string_view input) {
  static const Folder folder;
  const auto paths = node::nfd::HostPaths::Below(folder.path());
  const auto parts = Parts(input, 4);
  const auto below = [](const std::filesystem::path& path) {
    return path.lexically_relative(folder.path());
  };
  folder.Write(below(paths.proc) / "modules", parts[0]);
  folder.Write(below(paths.proc) / "sys/kernel/osrelease", parts[1]);
  folder.Write(below(paths.swaps), parts[2]);
  folder.Write(below(paths.etc) / "os-release", parts[3]);
  (void)node::nfd::DiscoverKernel(paths);
  (void)node::nfd::DiscoverMemory(paths);
  (void)node::nfd::DiscoverSystem(paths, "node");
}

void ReadFeatureFile(std::string_view input) {
  const auto file = node::nfd::ParseFeatureFile(input, "file", base::WallClock::time_point{});
  for (const auto& [name, value] : file.labels) {
    (void)node::nfd::CheckQualifiedName(name);
    (void)node::nfd::CheckLabelValue(value);
  }
}

// The configurations of the worker and of the master.
void ReadNfdConfig(std::string_view input) {
  const auto texts = node::nfd::ReadConfigTexts("/nonexistent/file", std::string(input));
  if (!texts) return;
  (void)node::nfd::MakeWorkerConfig(*texts, {});
  (void)node::nfd::MakeMasterConfig(*texts, {}, "namespace");
}

void ReadMigConfig(std::string_view input) {
  const auto configuration = node::mig::ParseConfiguration(input, "input");
  if (!configuration || configuration->version.empty()) return;
  (void)node::mig::SelectConfig(*configuration, "");
  const auto yaml = node::mig::ParseConfiguration(node::mig::ToYamlText(*configuration), "YAML");
  Check(yaml && *yaml == *configuration, "a configuration that is written reads as the same");
  const auto json = node::mig::ParseConfiguration(node::mig::ToJsonText(*configuration), "JSON");
  Check(json && *json == *configuration, "the same as JSON");
}

void ReadMigCheckpoint(std::string_view input) {
  const auto checkpoint = node::mig::ParseCheckpoint(input, "input");
  if (!checkpoint) return;
  const auto again = node::mig::ParseCheckpoint(node::mig::ToJsonText(*checkpoint), "again");
  Check(again && *again == *checkpoint, "a checkpoint that is written reads as the same");
}

void ReadMigHooks(std::string_view input) {
  const auto hooks = node::mig::ParseHooks(input, "input");
  if (!hooks) return;
  const auto again = node::mig::ParseHooks(node::mig::ToYamlText(*hooks), "again");
  Check(again && *again == *hooks, "hooks that are written read as the same");
}

void ReadVgpuConfig(std::string_view input) {
  const auto configuration = node::vgpu::ParseConfiguration(input, "input");
  if (!configuration || configuration->version.empty()) return;
  (void)node::vgpu::SelectConfig(*configuration, "");
  const auto yaml = node::vgpu::ParseConfiguration(node::vgpu::ToYamlText(*configuration), "YAML");
  Check(yaml && *yaml == *configuration, "a configuration that is written reads as the same");
  const auto json = node::vgpu::ParseConfiguration(node::vgpu::ToJsonText(*configuration), "JSON");
  Check(json && *json == *configuration, "the same as JSON");
}

void ReadVgpuJournal(std::string_view input) {
  const auto journal = node::vgpu::ParseJournal(input);
  if (!journal) return;
  const auto text = node::vgpu::ToJsonText(*journal);
  const auto again = node::vgpu::ParseJournal(text);
  Check(again && node::vgpu::ToJsonText(*again) == text,
        "a journal that is written reads as the same");
}

void ReadCcJournal(std::string_view input) {
  const auto journal = node::cc_mode::ParseJournal(input);
  if (!journal) return;
  const auto text = node::cc_mode::ToJsonText(*journal);
  const auto again = node::cc_mode::ParseJournal(text);
  Check(again && node::cc_mode::ToJsonText(*again) == text,
        "a journal that is written reads as the same");
}

void ReadPciIds(std::string_view input) {
  const gpu::DeviceNames names(input);
  for (const std::uint16_t device : {0x118a, 0x2331, 0x0000}) (void)names.Find(device);
  for (const auto make : {gpu::KubevirtName, gpu::KataName, gpu::VgpuName}) {
    const auto name = make(input);
    Check(make(name) == name, "a name that is made stays as it is");
    Check(name.find_first_of(" \t\n") == std::string::npos, "a name has no white space");
  }
  for (const char c : gpu::KataName(input)) {
    Check((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-',
          "a name has letters, digits, _ and -");
  }
}

// Texts of the kernel and of its modules that decide what goes to a virtual machine.
void ReadVfioFacts(std::string_view input) {
  (void)host::ParseModalias(input);
  const auto aliases = host::ParseVfioAliases(input);
  for (const auto& alias : aliases) {
    Check(!host::BestVfioModule(aliases, alias.devices).empty(), "every device has a driver");
  }
  (void)node::vfio::ParseFramebuffers(input);
  (void)node::vfio::ParseResources(input);
}

// As a cell of CSV that may hold anything. Of a carriage return and a newline the reader drops the
// first.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n' && quoted.ends_with('\r')) quoted += '\r';
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + "\"";
}

void ReadCounterFile(std::string_view input) {
  using node::metrics_exporter::ParseCounters;
  const auto file = ParseCounters(input, "input");
  if (!file) return;
  std::string text;
  for (const auto& counter : file->counters) {
    text += counter.name + "," + counter.type + "," + Quoted(counter.help) + "\n";
  }
  const auto again = ParseCounters(text, "again");
  Check(again && again->counters.size() == file->counters.size(), "as many counters");
  for (std::size_t i = 0; i < file->counters.size(); ++i) {
    Check(again->counters[i].help == file->counters[i].help, "a help text reads as the same");
  }
}

void ReadDeviceIds(std::string_view input) {
  using namespace node::metrics_exporter;
  const auto keys = KeysOf(input, Round());
  Check(!keys.empty() && keys.front() == input, "a device is found by its own id");
  Check(input.starts_with(WithoutReplica(input)), "a replica's number stands behind");
  (void)ReplicaOf(input);
  const auto uid = PodUidOfCgroups(input);
  Check(uid.empty() || uid.size() >= 32, "a pod's UID has a length");
  if (const auto selection = ParseDeviceSelection(input, "devices")) {
    Check(std::ranges::is_sorted(selection->ids), "ids ascend");
  }
}

// What is read, written as lines, reads the same.
void ReadTegraLines(std::string_view input) {
  host::TegraLists lists;
  host::AppendTegraLines(input, lists);
  std::string text;
  const auto write = [&](std::string_view type, const std::vector<std::string>& paths) {
    for (const auto& path : paths) text += std::string(type) + ", " + path + "\n";
  };
  write("dev", lists.devices);
  write("dir", lists.folders);
  write("lib", lists.libraries);
  write("sym", lists.links);
  host::TegraLists again;
  host::AppendTegraLines(text, again);
  Check(again == lists, "lists that are written read the same");
}

constexpr Target kTargets[] = {{"plugin_config", ReadPluginConfig},
                               {"mig_config", ReadMigConfig},
                               {"mig_checkpoint", ReadMigCheckpoint},
                               {"mig_hooks", ReadMigHooks},
                               {"mig_profile", ReadMigProfile},
                               {"counter_file", ReadCounterFile},
                               {"device_ids", ReadDeviceIds},
                               {"cc_journal", ReadCcJournal},
                               {"vgpu_config", ReadVgpuConfig},
                               {"vgpu_journal", ReadVgpuJournal},
                               {"pci_ids", ReadPciIds},
                               {"small_texts", ReadSmallTexts},
                               {"containerd_config", ReadContainerdConfig},
                               {"crio_config", ReadCrioConfig},
                               {"docker_config", ReadDockerConfig},
                               {"engine_template", ReadEngineTemplate},
                               {"engine_journals", ReadEngineJournals},
                               {"proc", ReadProc},
                               {"sysfs", ReadSysfs},
                               {"tegra_lists", ReadTegraLines},
                               {"vfio_facts", ReadVfioFacts},
                               {"node_features", ReadNodeFeatures},
                               {"feature_file", ReadFeatureFile},
                               {"nfd_config", ReadNfdConfig}};

}  // namespace

std::span<const Target> NodeTargets() { return kTargets; }

}  // namespace pitcrew::fuzz

#include "node/ctk/generate_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "base/log.h"
#include "base/strings.h"
#include "cdi/generate/device_ids.h"
#include "cdi/name.h"
#include "host/driver_root.h"
#include "host/root.h"
#include "host/tegra.h"
#include "node/toolkit/config_document.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using cdi_generate::Naming;
using toolkit::BadUsage;

constexpr std::string_view kHookProgram = "nvidia-cdi-hook";
constexpr std::string_view kTool = "nvidia-ctk";
constexpr std::string_view kFeatures[] = {"disable-ipc-discoverer",
                                          "disable-multiple-csv-devices",
                                          "disable-nvsandboxutils",
                                          "disable-nvsandbox-utils",
                                          "enable-coherent-annotations",
                                          "enable-explicit-driver-libraries",
                                          "no-additional-gids-for-device-nodes"};
constexpr std::string_view kHooks[] = {"all",
                                       "chmod",
                                       "create-symlinks",
                                       "disable-device-node-modification",
                                       "enable-cuda-compat",
                                       "update-application-profile",
                                       "update-ldcache"};

std::vector<std::string> OrNone(const List& list) {
  return list.value_or(std::vector<std::string>{});
}

// Upstream knows others at other times, so they are no mistake.
void WarnOfUnknown(std::string_view flag, const std::vector<std::string>& names,
                   std::span<const std::string_view> known) {
  for (const auto& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    base::LogWarning("A flag names something that is not known, and has no effect",
                     {{"flag", std::string(flag)}, {"name", name}});
  }
}

base::Result<std::vector<Naming>> ParseStrategies(const List& names) {
  if (!names) return std::vector{Naming::kIndex, Naming::kUuid};
  std::vector<Naming> strategies;
  for (const auto& name : *names) {
    if (name == "index") {
      strategies.push_back(Naming::kIndex);
    } else if (name == "uuid") {
      strategies.push_back(Naming::kUuid);
    } else if (name == "type-index") {
      strategies.push_back(Naming::kTypeIndex);
    } else {
      return base::Fail(BadUsage(
          fmt::format("--device-name-strategy \"{}\" is none of index, uuid, type-index", name)));
    }
  }
  return strategies;
}

bool Has(const List& features, std::string_view name) {
  return features && std::ranges::find(*features, name) != features->end();
}

// Those of PATH, then the system's, as upstream looks for programs.
std::vector<std::string> ProgramFolders() {
  const char* own = std::getenv("PATH");
  auto folders = base::SplitTrimmed(own == nullptr ? "" : own, ':');
  std::erase_if(folders, [](const std::string& folder) { return !folder.starts_with('/'); });
  for (const auto folder : host::StandardProgramFolders()) folders.emplace_back(folder);
  return folders;
}

// Upstream's: an absolute path stays, another name is looked for where programs are.
std::string ResolveHookPath(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::string name = path.empty() ? std::string(kHookProgram) : path;
  for (const auto& folder : ProgramFolders()) {
    const auto program = std::filesystem::path(folder) / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(program, ignored) &&
        ::access(program.c_str(), X_OK) == 0) {
      return program.string();
    }
  }
  const bool is_tool = std::filesystem::path(name).filename() == kTool;
  return fmt::format("/usr/bin/{}", is_tool ? kTool : kHookProgram);
}

base::Result<cdi_generate::Options> ReadOptions(const GlobalFlags& global,
                                                const GenerateFlags& flags) {
  cdi_generate::Options options;
  TRY_ASSIGN(options.driver_root, DriverRoot(global, flags));
  options.dev_root = flags.dev_root.value_or("");
  if (options.dev_root.empty()) options.dev_root = options.driver_root;
  options.kind = flags.vendor.value_or("nvidia.com") + "/" + flags.device_class.value_or("gpu");
  TRY(cdi::ValidateKind(options.kind));
  options.hook_path = ResolveHookPath(flags.hook_path.value_or(""));
  options.ldconfig_path = flags.ldconfig_path.value_or("");
  options.merged_device = !flags.no_all_device.value_or(false);
  options.disabled_hooks = OrNone(flags.disabled_hooks);
  options.enabled_hooks = OrNone(flags.enabled_hooks);
  if (std::ranges::find(options.enabled_hooks, "all") != options.enabled_hooks.end()) {
    return base::Fail(BadUsage("--enable-hook all: name the hooks"));
  }
  WarnOfUnknown("--disable-hook", options.disabled_hooks, kHooks);
  WarnOfUnknown("--enable-hook", options.enabled_hooks, kHooks);
  WarnOfUnknown("--feature-flag", OrNone(flags.features), kFeatures);
  options.coherent_annotations = Has(flags.features, "enable-coherent-annotations");
  options.additional_gids = !Has(flags.features, "no-additional-gids-for-device-nodes");
  options.ids = flags.device_ids.value_or(options.ids);
  if (cdi_generate::MeansNoDevice(options.ids) && options.merged_device) {
    base::LogWarning("Without a device there is no device \"all\" either");
  }
  TRY_ASSIGN(options.naming, ParseStrategies(flags.strategies));
  return options;
}

base::Result<std::vector<std::string>> ConfigFolders(const GenerateFlags& flags,
                                                     const std::string& driver_root) {
  if (flags.config_folders) {
    return InsideRoot(*flags.config_folders, "--config-search-path", driver_root);
  }
  const char* shared = std::getenv("XDG_DATA_DIRS");
  if (shared == nullptr || *shared == '\0') return std::vector<std::string>{};
  std::vector<std::string> folders = {"/etc"};
  for (auto& folder : base::SplitTrimmed(shared, ':')) folders.push_back(std::move(folder));
  return folders;
}

}  // namespace

base::Result<std::string> DriverRoot(const GlobalFlags& global, const GenerateFlags& flags) {
  std::string root = flags.driver_root.value_or("");
  if (root.empty() && !global.config.empty()) {
    TRY_ASSIGN(const auto config, toolkit::ConfigDocument::Read(global.config));
    root = config.Text("nvidia-container-cli.root");
  }
  return root.empty() ? "/" : root;
}

base::Result<std::vector<std::string>> InsideRoot(const std::vector<std::string>& folders,
                                                  std::string_view flag,
                                                  const std::string& driver_root) {
  const host::Root root(driver_root);
  std::vector<std::string> inside;
  for (const auto& folder : folders) {
    auto stripped = root.Strip(folder);
    if (!folder.starts_with('/') || !stripped) {
      return base::Fail(BadUsage(fmt::format("{} \"{}\" is no absolute path in the driver root {}",
                                             flag, folder, root.path().string())));
    }
    inside.push_back(stripped->string());
  }
  return inside;
}

void AddDriverRootFlag(base::CommandLine& line, GenerateFlags& to) {
  line.Add({"driver-root", "NVIDIA_CTK_DRIVER_ROOT",
            "root of the driver; by default nvidia-container-cli.root of nvidia-ctk --config"},
           &to.driver_root);
}

void AddGenerateFlags(base::CommandLine& line, GenerateFlags& to) {
  line.Add({"output", "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "file; standard output when empty"},
           &to.output);
  line.Add({"format", "NVIDIA_CTK_CDI_GENERATE_OUTPUT_FORMAT",
            "yaml or json; by default as the ending of --output says, else yaml"},
           &to.format);
  line.Add({"mode,discovery-mode", "NVIDIA_CTK_CDI_GENERATE_MODE",
            "auto, csv, gdrcopy, gds, imex, management, mofed, nvml, nvswitch or wsl"},
           &to.mode);
  AddDriverRootFlag(line, to);
  line.Add({"dev-root", "NVIDIA_CTK_DEV_ROOT", "root of /dev"}, &to.dev_root);
  line.Add({"nvidia-cdi-hook-path,nvidia-ctk-path", "NVIDIA_CTK_CDI_HOOK_PATH", "the hook program"},
           &to.hook_path);
  line.Add({"ldconfig-path", "NVIDIA_CTK_CDI_GENERATE_LDCONFIG_PATH",
            "handed to the hook update-ldcache; Pitcrew's needs none"},
           &to.ldconfig_path);
  line.Add({"vendor,cdi-vendor", "NVIDIA_CTK_CDI_GENERATE_VENDOR", "vendor of the kind"},
           &to.vendor);
  line.Add({"class,cdi-class", "NVIDIA_CTK_CDI_GENERATE_CLASS", "class of the kind"},
           &to.device_class);
  line.Add({"device-name-strategy", "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES",
            "index, uuid, type-index"},
           &to.strategies);
  line.Add({"disable-hook,disable-hooks", "NVIDIA_CTK_CDI_GENERATE_DISABLED_HOOKS",
            "hooks that are left out; all"},
           &to.disabled_hooks);
  line.Add({"enable-hook,enable-hooks", "NVIDIA_CTK_CDI_GENERATE_ENABLED_HOOKS",
            "hooks that stay whatever --disable-hook says; chmod is off without it"},
           &to.enabled_hooks);
  line.Add(
      {"feature-flag,feature-flags", "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS",
       "disable-ipc-discoverer, disable-multiple-csv-devices, enable-coherent-annotations (which "
       "writes the GPUs of each kind of memory to a file of their own as well), "
       "enable-explicit-driver-libraries, no-additional-gids-for-device-nodes"},
      &to.features);
  line.Add({"device-id,device-ids,device,devices", "NVIDIA_CTK_CDI_GENERATE_DEVICE_IDS",
            "indices and UUIDs of devices; all, none; numbers of channels with --mode imex"},
           &to.device_ids);
  line.Add({"library-search-path", "NVIDIA_CTK_CDI_GENERATE_LIBRARY_SEARCH_PATHS",
            "folders of the driver root in which alone libraries are looked for; with --mode csv "
            "those before the root itself, as the driver root names them"},
           &to.library_folders);
  line.Add({"config-search-path", "NVIDIA_CTK_CDI_GENERATE_CONFIG_SEARCH_PATHS",
            "folders of the driver root in which alone the driver's configurations are looked for; "
            "by default etc and those of XDG_DATA_DIRS"},
           &to.config_folders);
  line.Add({"csv.file", "NVIDIA_CTK_CDI_GENERATE_CSV_FILES",
            "lists of a Tegra system, in place of those that its packages install"},
           &to.tegra_lists);
  line.Add({"csv.ignore-pattern", "NVIDIA_CTK_CDI_GENERATE_CSV_IGNORE_PATTERNS",
            "links of these lists that are left out; **/<pattern> is for the last part of a path"},
           &to.ignored_links);
  line.Add({"csv.compat-container-root", "NVIDIA_CTK_CDI_GENERATE_CSV_CONTAINER_COMPAT_ROOT",
            "folder of CUDA's compatibility libraries in containers, on Orin"},
           &to.compat_root);
  line.Add({"no-all-device", "NVIDIA_CTK_CDI_GENERATE_NO_ALL_DEVICE", "no merged device"},
           &to.no_all_device);
}

namespace {

// What the configuration names of a Tegra system, where no flag does.
struct CsvSettings {
  std::vector<std::string> lists{host::kTegraLists.begin(), host::kTegraLists.end()};
  std::string compat_root;
};

base::Result<CsvSettings> ReadCsvSettings(const GlobalFlags& global) {
  CsvSettings settings;
  if (global.config.empty()) return settings;
  TRY_ASSIGN(const auto config, toolkit::ConfigDocument::Read(global.config));
  settings.compat_root = config.Text("nvidia-container-runtime.modes.csv.compat-container-root");
  const std::filesystem::path folder =
      config.Text("nvidia-container-runtime.modes.csv.mount-spec-path");
  if (folder.empty()) return settings;
  for (auto& list : settings.lists) {
    list = (folder / std::filesystem::path(list).filename()).string();
  }
  return settings;
}

}  // namespace

base::Result<GenerateRequest> ReadRequest(const GlobalFlags& global, const GenerateFlags& flags) {
  GenerateRequest request;
  TRY_ASSIGN(request.options, ReadOptions(global, flags));
  request.sockets = !Has(flags.features, "disable-ipc-discoverer");
  request.library_folders = OrNone(flags.library_folders);
  request.unversioned_libraries = Has(flags.features, "enable-explicit-driver-libraries");
  request.program_folders = ProgramFolders();
  TRY_ASSIGN(request.config_folders, ConfigFolders(flags, request.options.driver_root));
  TRY_ASSIGN(const auto csv, ReadCsvSettings(global));
  request.tegra.lists = flags.tegra_lists.value_or(csv.lists);
  request.tegra.ignored_links = OrNone(flags.ignored_links);
  request.tegra.compat_root = flags.compat_root.value_or(csv.compat_root);
  request.tegra.one_device = Has(flags.features, "disable-multiple-csv-devices");
  return request;
}

}  // namespace pitcrew::node::ctk

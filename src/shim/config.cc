#include "shim/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "codec/config_reader.h"
#include "codec/toml.h"

namespace pitcrew::shim {
namespace {

using codec::ConfigReader;
using codec::Json;

constexpr const char* kRelative = "nvidia-container-runtime/config.toml";

base::Status ReadFolders(const ConfigReader& cdi, std::vector<std::filesystem::path>& folders) {
  std::optional<std::vector<std::string>> names;
  TRY(cdi.Read("spec-dirs", names));
  if (names) folders.assign(names->begin(), names->end());
  return {};
}

// Of a file that says "all", and of one that says nothing, all that there are.
base::Status ReadCapabilities(const ConfigReader& root, Config& config) {
  std::optional<std::string> text;
  TRY(root.Read("supported-driver-capabilities", text));
  if (!text || *text == "all") return {};
  const auto all = config.supported_capabilities;
  config.supported_capabilities = base::SplitTrimmed(*text, ',');
  for (const auto& name : config.supported_capabilities) {
    if (std::ranges::find(all, name) != all.end()) continue;
    return base::Fail(
        base::Invalid("InvalidConfig",
                      fmt::format("supported-driver-capabilities: there is no capability \"{}\"; "
                                  "there are {}",
                                  name, base::Join(all, ", "))));
  }
  return {};
}

base::Status ReadRuntime(const ConfigReader& root, Config& config) {
  TRY_ASSIGN(const auto runtime, root.Object("nvidia-container-runtime"));
  TRY_ASSIGN(const auto modes, runtime.Object("modes"));
  TRY_ASSIGN(const auto cdi, modes.Object("cdi"));
  TRY_ASSIGN(const auto csv, modes.Object("csv"));
  TRY_ASSIGN(const auto prepared, modes.Object("jit-cdi"));
  TRY(runtime.Read("debug", config.debug_log));
  TRY(runtime.Read("log-level", config.log_level));
  TRY(runtime.Read("runtimes", config.runtimes));
  TRY(runtime.Read("mode", config.mode));
  TRY(cdi.Read("annotation-prefixes", config.annotation_prefixes));
  TRY(cdi.Read("default-kind", config.default_kind));
  TRY(ReadFolders(cdi, config.spec_folders));
  TRY(csv.Read("mount-spec-path", config.csv_lists));
  TRY(prepared.Read("nvcdi-disable-hooks", config.disabled_hooks));
  std::vector<std::string> flags;
  TRY(prepared.Read("nvcdi-feature-flags", flags));
  for (const auto& flag : flags) {
    if (flag == "no-additional-gids-for-device-nodes") config.additional_gids = false;
    if (flag == "disable-ipc-discoverer") config.sockets = false;
  }
  return {};
}

base::Status ReadFeatures(const ConfigReader& root, const ConfigReader& features, Config& config) {
  TRY_ASSIGN(const auto runtime, root.Object("nvidia-container-runtime"));
  TRY_ASSIGN(const auto modes, runtime.Object("modes"));
  TRY_ASSIGN(const auto legacy, modes.Object("legacy"));
  std::string compat_mode = "ldconfig";
  bool no_hook = false;
  bool container_libraries = false;
  bool no_gids = false;
  TRY(legacy.Read("cuda-compat-mode", compat_mode));
  TRY(features.Read("disable-cuda-compat-lib-hook", no_hook));
  TRY(features.Read("allow-cuda-compat-libs-from-container", container_libraries));
  TRY(features.Read("ignore-imex-channel-requests", config.ignore_imex_channels));
  TRY(features.Read("no-additional-gids-for-device-nodes", no_gids));
  if (no_gids) config.additional_gids = false;
  config.legacy_cuda_compat = compat_mode == "ldconfig" || compat_mode == "mount" ||
                              (compat_mode == "hook" && !no_hook) ||
                              (compat_mode.empty() && container_libraries);
  return {};
}

// No program of the container may be run for it, says whoever sets a path without "@" and does not
// say that it may (container-toolkit.md 3.2). Here none ever is, but the same file is refused.
base::Status CheckLdconfig(const ConfigReader& cli, const ConfigReader& features) {
  std::string path = "@";
  bool from_container = false;
  TRY(cli.Read("ldconfig", path));
  TRY(features.Read("allow-ldconfig-from-container", from_container));
  if (path.starts_with('@') || from_container) return {};
  return cli.Wrong(
      "ldconfig", fmt::format("must begin with @, for a program of the host, and not be \"{}\"; or "
                              "set features.allow-ldconfig-from-container",
                              path));
}

base::Status ReadCli(const ConfigReader& root, const ConfigReader& features, Config& config) {
  TRY_ASSIGN(const auto cli, root.Object("nvidia-container-cli"));
  std::string driver_root;
  bool no_cgroups = false;
  TRY(cli.Read("root", driver_root));
  if (!driver_root.empty()) config.driver_root = driver_root;
  TRY(cli.Read("debug", config.legacy_log));
  TRY(cli.Read("no-cgroups", no_cgroups));
  config.legacy_device_rules = !no_cgroups;
  return CheckLdconfig(cli, features);
}

// None where `values` has no such list of names.
std::vector<std::string> RuntimesOf(const base::Result<Json>& values) {
  std::vector<std::string> names;
  const Json* const list =
      values ? codec::Find(*values, {"nvidia-container-runtime", "runtimes"}) : nullptr;
  if (list == nullptr || !list->is_array()) return names;
  for (const auto& name : *list) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Of a text that is no TOML as a whole: tables begin at lines of their own, and so do members.
std::vector<std::string> RuntimesInParts(std::string_view text) {
  constexpr std::size_t kMostLines = 64;  // of one list
  const std::string table = "[nvidia-container-runtime]";
  const auto lines = base::Split(text, '\n');
  bool inside = false;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const auto line = base::Trim(lines[at]);
    if (line.starts_with('[')) {
      const auto header = codec::ParseToml(line);
      const Json* const found =
          header ? codec::Find(*header, {"nvidia-container-runtime"}) : nullptr;
      inside = found != nullptr && found->is_object() && found->empty();
    }
    if (!inside || !line.starts_with("runtimes")) continue;
    std::string part = table;
    for (std::size_t end = at; end < lines.size() && end < at + kMostLines; ++end) {
      part += "\n" + lines[end];
      if (auto names = RuntimesOf(codec::ParseToml(part)); !names.empty()) return names;
    }
  }
  return {};
}

}  // namespace

base::Result<Config> ParseConfig(std::string_view text, std::string_view source,
                                 const std::filesystem::path& toolkit_folder) {
  TRY_ASSIGN(const Json json, codec::ParseToml(text, source));
  TRY_ASSIGN(const auto root, ConfigReader::Create(json, source, codec::Names::kExact));
  TRY_ASSIGN(const auto hook, root.Object("nvidia-container-runtime-hook"));
  TRY_ASSIGN(const auto features, root.Object("features"));
  Config config;
  std::string swarm;
  TRY(root.Read("accept-nvidia-visible-devices-envvar-when-unprivileged",
                config.accept_env_when_unprivileged));
  TRY(root.Read("accept-nvidia-visible-devices-as-volume-mounts", config.accept_devices_as_mounts));
  TRY(root.Read("swarm-resource", swarm));
  config.swarm_resources = base::SplitTrimmed(swarm, ',');
  TRY(root.Read("disable-require", config.disable_require));
  TRY(ReadCapabilities(root, config));
  TRY(ReadRuntime(root, config));
  TRY(hook.Read("skip-mode-detection", config.skip_mode_detection));
  TRY(ReadFeatures(root, features, config));
  TRY(ReadCli(root, features, config));
  config.installed = !toolkit_folder.empty();
  config.unheeded = UnheededMembers(json, toolkit_folder);
  return config;
}

std::filesystem::path ProgramFolder() {
  std::error_code problem;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", problem);
  return problem ? std::filesystem::path() : program.parent_path();
}

std::filesystem::path ConfigPath(const std::filesystem::path& program_folder) {
  if (!program_folder.empty()) {
    const auto installed = program_folder / ".config" / kRelative;
    std::error_code ignored;
    if (std::filesystem::exists(installed, ignored)) return installed;
  }
  if (const char* path = std::getenv("NVIDIA_CTK_CONFIG_FILE_PATH"); path != nullptr && *path) {
    return path;
  }
  if (const char* folder = std::getenv("XDG_CONFIG_HOME"); folder != nullptr && *folder) {
    return std::filesystem::path(folder) / kRelative;
  }
  return std::filesystem::path("/etc") / kRelative;
}

std::filesystem::path ToolkitFolderOf(const std::filesystem::path& config_path) {
  const auto above = config_path.parent_path().parent_path();
  return above.filename() == ".config" ? above.parent_path() : std::filesystem::path();
}

base::Result<Config> LoadConfig(const std::filesystem::path& path) {
  const auto text = base::ReadFile(path);
  if (!text && text.error().code == base::Code::kNotFound) return Config{};
  if (!text) return base::Fail(text.error());
  return ParseConfig(*text, path.string(), ToolkitFolderOf(path));
}

Config SalvageConfig(const std::filesystem::path& path) {
  Config config;
  const auto text = base::ReadFile(path);
  if (!text) return config;
  auto names = RuntimesOf(codec::ParseToml(*text));
  if (names.empty()) names = RuntimesInParts(*text);
  if (!names.empty()) config.runtimes = std::move(names);
  return config;
}

}  // namespace pitcrew::shim

// config.toml of the container runtime and its hooks (container-toolkit.md 3).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cdi/driver_annotations.h"
#include "shim/config_members.h"

namespace pitcrew::shim {

struct Config {
  bool accept_env_when_unprivileged = true;
  bool accept_devices_as_mounts = false;
  std::vector<std::string>
      swarm_resources;  // environment variables instead of NVIDIA_VISIBLE_DEVICES
  std::string debug_log = "/dev/null";
  std::string log_level = "info";
  std::vector<std::string> runtimes = {"runc", "crun"};
  std::string mode = "auto";
  std::vector<std::string> annotation_prefixes = {"cdi.k8s.io/"};
  std::string default_kind = "nvidia.com/gpu";
  std::vector<std::filesystem::path> spec_folders = {"/etc/cdi", "/var/run/cdi"};
  bool skip_mode_detection = false;
  bool disable_require = false;       // requirements of images count as met
  bool ignore_imex_channels = false;  // features.ignore-imex-channel-requests
  // Upper bound of NVIDIA_DRIVER_CAPABILITIES in mode legacy.
  std::vector<std::string> supported_capabilities = {"compat32", "compute", "display", "graphics",
                                                     "ngx",      "utility", "video"};
  std::filesystem::path driver_root = "/";  // nvidia-container-cli.root, on the host
  // Of libnvidia-container, whose work the runtime does in mode legacy.
  std::string legacy_log;           // nvidia-container-cli.debug
  bool legacy_device_rules = true;  // not nvidia-container-cli.no-cgroups
  bool legacy_cuda_compat = true;   // modes.legacy.cuda-compat-mode and its features
  // Of what the toolkit has prepared for all modes but cdi.
  std::vector<std::string> disabled_hooks;  // modes.jit-cdi.nvcdi-disable-hooks
  bool additional_gids = true;
  bool sockets = true;                                          // of daemons of the driver
  std::string csv_lists = std::string(cdi::kUsualListsFolder);  // modes.csv.mount-spec-path
  // The toolkit has put the program here: upstream's has a wrapper before it then, which leaves it
  // out as long as the driver's module is not loaded.
  bool installed = false;
  std::filesystem::path driver_module = "/sys/module/nvidia";  // another one is for tests
  std::vector<Unheeded> unheeded;
};

// A member of a wrong kind is kInvalid, and so is what upstream's runtime refuses; what has no
// effect is in `unheeded`. `toolkit_folder` as UnheededMembers (config_members.h) takes it.
base::Result<Config> ParseConfig(std::string_view text, std::string_view source,
                                 const std::filesystem::path& toolkit_folder = {});

// The first of: .config/nvidia-container-runtime/config.toml beside the program (the installed
// layout), $NVIDIA_CTK_CONFIG_FILE_PATH, $XDG_CONFIG_HOME/nvidia-container-runtime/config.toml,
// /etc/nvidia-container-runtime/config.toml. `program_folder` may be empty.
std::filesystem::path ConfigPath(const std::filesystem::path& program_folder);

// The folder that the toolkit was installed in which wrote the file, "" where it is another's file.
std::filesystem::path ToolkitFolderOf(const std::filesystem::path& config_path);

// Defaults when the file does not exist.
base::Result<Config> LoadConfig(const std::filesystem::path& path);

// What of a file that LoadConfig refuses serves to reach containers that run already: the defaults,
// with the file's own nvidia-container-runtime.runtimes wherever they can be made out, even where
// the rest is no TOML. A list of another kind counts as none.
Config SalvageConfig(const std::filesystem::path& path);

// The folder in which this program's file really lies; empty when unknown.
std::filesystem::path ProgramFolder();

}  // namespace pitcrew::shim

// Flags and environment of nvidia-ctk-installer (container-toolkit.md 4.3).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::node::toolkit {

// Exit statuses of both programs.
constexpr int kFailure = 1;
constexpr int kUsage = 2;

inline base::Error BadUsage(std::string message) {
  return base::Invalid("BadUsage", std::move(message));
}

enum class EngineKind { kContainerd, kCrio, kDocker };
enum class RestartMode { kSignal, kSystemd, kNone };
std::string_view ToString(EngineKind kind);

// What is written into the installed config.toml when the flag or its variable was given.
struct RuntimeSettings {
  std::optional<std::string> debug;
  std::optional<std::string> log_level;
  std::optional<std::string> mode;
  std::optional<std::string> default_kind;
  std::optional<std::string> cli_debug;
  std::optional<std::vector<std::string>> annotation_prefixes;
  std::optional<std::vector<std::string>> low_level_runtimes;
  bool skip_mode_detection = true;
  bool accept_env_when_unprivileged = true;
  bool accept_devices_as_mounts = false;
  std::vector<std::string> opt_in_features;
};

struct EngineOptions {
  EngineKind kind = EngineKind::kDocker;
  std::filesystem::path config;   // the engine's top-level configuration as this process sees it
  std::filesystem::path drop_in;  // empty: none
  std::string drop_in_host_path;  // the drop-in as the engine sees it; empty: same as drop_in
  std::string executable;         // of the engine, inside host_root; empty: found out
  std::filesystem::path socket;
  RestartMode restart = RestartMode::kSignal;
  bool enable_cdi = false;
  std::filesystem::path host_root = "/host";
  std::string runtime_name = "nvidia";
  bool set_as_default = true;
  std::vector<std::string> config_sources = {"command", "file"};
  bool use_legacy_config = false;
  std::string runtime_type = "io.containerd.runc.v2";
  std::vector<std::string> annotation_prefixes;
  // How long the engine may take to come back before its old configuration is put back.
  std::chrono::seconds restart_time{60};
};

// The toolkit as an NRI plugin.
struct NriOptions {
  std::string plugin_name = "nvidia-toolkit";
  unsigned index = 10;  // the order among plugins
  std::filesystem::path socket = "/var/run/nri/nri.sock";
  std::string operator_namespace;
  std::vector<std::string> more_namespaces;  // that may have management devices too
};

struct Options {
  bool no_daemon = false;
  bool no_runtime_config = false;
  std::filesystem::path install_folder = "/usr/local/nvidia";
  std::filesystem::path source_root;  // empty: where this program itself lies
  std::filesystem::path pid_file = "/run/nvidia/toolkit/toolkit.pid";
  bool debug = false;

  std::string driver_root = "/run/nvidia/driver";                      // on the host
  std::filesystem::path driver_root_container = "/run/nvidia/driver";  // for this process
  std::string dev_root;                                                // empty: driver_root
  std::filesystem::path dev_root_container;  // empty: driver_root_container
  bool cdi_enabled = false;
  std::filesystem::path cdi_folder = "/var/run/cdi";
  std::string cdi_kind = "management.nvidia.com/gpu";
  bool create_control_nodes = true;
  bool ignore_errors = false;
  std::filesystem::path validations = "/run/nvidia/validations";  // another one is for tests

  RuntimeSettings runtime;
  EngineOptions engine;
  std::optional<NriOptions> nri;  // then the engine is left alone

  [[nodiscard]] bool configures_engine() const { return !no_runtime_config && !nri; }

  [[nodiscard]] std::filesystem::path toolkit_folder() const { return install_folder / "toolkit"; }
};

// nullopt when --help or --version was answered. kInvalid for what a person must correct.
base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::toolkit

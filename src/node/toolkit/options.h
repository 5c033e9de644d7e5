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
enum class RestartMode { kSignal, kSystemd, kNone, kByDistribution };
std::string_view ToString(EngineKind kind);

// Kubernetes distributions with a containerd of their own, which they configure in their own ways
// (runtimes-and-distributions.md 5).
enum class Distribution { kNone, kK3s, kRke2, kMicroK8s, kK0s };
std::string_view ToString(Distribution distribution);

// Where runtimes are added for a distribution.
enum class Placement {
  kRootFile,      // a drop-in, and its import in the root file: the node has no distribution
  kDropIn,        // a drop-in that the distribution's root file imports already
  kTemplate,      // the template that the distribution makes its root file from
  kFoundByItself  // nowhere: the distribution looks for our programs when it starts
};

struct DistributionOptions {
  Distribution name = Distribution::kNone;
  Placement placement = Placement::kRootFile;
  std::string unit;  // of systemd; empty: that of the engine's own name
};

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

// k3s and RKE2 are the whole node's kubelet, and on servers the control plane too.
inline constexpr std::chrono::seconds kDistributionRestartTime{300};

// CRI-O's OCI hook, in its mode hook.
struct OciHook {
  bool enabled = false;
  std::filesystem::path file;     // as this process sees it
  std::filesystem::path program;  // on the host
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
  OciHook hook;
  // With one, `config` is the root file that the distribution writes, and `drop_in` the drop-in or
  // the template.
  DistributionOptions distribution;
  // The program that is behind our runtimes in the engine, and the low-level one that it ran before
  // this start, by the installed config.toml; empty: not known.
  std::string own_program;
  std::string earlier_low_level;
  // Where it is kept what the files were before the toolkit came; empty: nowhere.
  std::filesystem::path originals;
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

// What somebody chose, and nothing that is found on the node may replace.
struct GivenSettings {
  bool config = false;
  bool drop_in = false;
  bool socket = false;
  bool restart = false;
  std::optional<Distribution> distribution;  // kNone: there is none to look for
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
  std::filesystem::path proc = "/proc";                           // likewise

  RuntimeSettings runtime;
  EngineOptions engine;
  GivenSettings given;
  std::optional<NriOptions> nri;  // then the engine is left alone

  [[nodiscard]] bool configures_engine() const { return !no_runtime_config && !nri; }

  [[nodiscard]] std::filesystem::path toolkit_folder() const { return install_folder / "toolkit"; }
};

// nullopt when --help or --version was answered. kInvalid for what a person must correct.
base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::toolkit

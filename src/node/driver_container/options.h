// What a driver container was told: its command, its flags, and the variables that the operator and
// the image set (driver-lifecycle.md 8.3, 9.1, 9.2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::node::driver_container {

enum class Action {
  kInit,           // bring the driver up, stay, and take it down again
  kBuild,          // modules and programs into this file system; the node is left alone
  kLoad,           // what `build` has made
  kUpdate,         // modules for another kernel into this file system
  kPreflight,      // say what `init` would do or miss, and change nothing
  kReloadPeermem,  // nvidia-peermem, as soon as driver and network driver are there
  kProbePeermem,   // whether nvidia-peermem is missing
};

enum class ModuleType { kAuto, kOpen, kProprietary };

// Where this process sees things; other values are for tests.
struct Places {
  std::filesystem::path root = "/";  // of this container
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path run = "/run/nvidia";
  std::filesystem::path drivers = "/drivers";  // run file, module parameters, licences
  std::filesystem::path mofed = "/run/mellanox/drivers";
};

struct Options {
  Action action = Action::kInit;
  std::string kernel;        // --kernel; empty: the one that runs
  std::int64_t threads = 0;  // of the compilation; 0: one for each processor
  bool refresh_packages = true;
  // Of kPreflight: where what is missing is written for the operator; "": nowhere. What is in the
  // way, but would not be when the driver comes, is not asked then.
  std::string report;
  std::string signing_key;  // a private key's file: modules that are compiled get its signature
  std::string signing_certificate;  // its certificate's file

  std::string version;       // DRIVER_VERSION: "580.95.05"
  std::string architecture;  // as the kernel calls it: "x86_64", "aarch64"
  bool is_vgpu_guest = false;
  ModuleType module_type = ModuleType::kAuto;
  bool gpu_direct_rdma = false;
  bool host_mofed = false;
  std::string config_digest;
  std::string licence_server = "NLS";
  bool matches_vgpu_version = false;                  // DISABLE_VGPU_VERSION_CHECK=false
  std::map<std::string, std::string> fabric_manager;  // NVFM_CONFIG_<KEY>
  std::string release_version;                        // DNF_RELEASEVER
  Places places;

  // The first part of the version, 580; 0 without a version.
  [[nodiscard]] unsigned branch() const;
};

// Nothing when --help or --version was answered. kInvalid for wrong usage. `variables` is the whole
// environment, which NVFM_CONFIG_<KEY> are looked for in.
base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv, const std::map<std::string, std::string>& variables);

// The same for a program that compiles a module beside the driver's (companion.h): it has one
// command, `install`, and of the flags those that compiling has.
base::Result<std::optional<Options>> ReadCompanionOptions(
    std::string_view program, std::string_view description, int argc, char** argv,
    const std::map<std::string, std::string>& variables);

// The environment of this process.
std::map<std::string, std::string> OwnVariables();

}  // namespace pitcrew::node::driver_container

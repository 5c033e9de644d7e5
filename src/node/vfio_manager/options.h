// What vfio-manage was told (vfio-manager.md section 2).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::node::vfio_manager {

enum class Action { kBind, kUnbind, kStatus };
enum class Format { kTable, kJson, kYaml };

struct Options {
  Action action = Action::kStatus;
  bool all = false;
  std::string device;  // its address, as it was given; with `all` empty
  bool switches = false;
  std::filesystem::path host_root = "/";
  std::chrono::nanoseconds timeout{0};  // how long users of GPUs are waited for
  bool follow = false;    // kBind: stay, and do the same to devices that are plugged in later
  std::string node_name;  // whose Events tell what happened; "": none do
  std::string kubeconfig;
  Format format = Format::kTable;
  // Where /sys and the kernel's /proc are; another value is for tests.
  std::filesystem::path root = "/";
};

// Nothing when --help or --version was answered. kInvalid for wrong usage.
base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::vfio_manager

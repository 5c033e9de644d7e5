// The command line of `nvidia-validator qualify`.
#pragma once

#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"
#include "node/qualification/examine.h"

namespace pitcrew::node::qualification {

enum class Format { kText, kJson, kYaml };

struct Options {
  ExamineOptions examine;
  Format format = Format::kText;
  std::string kubeconfig;
  bool tell = false;       // write the result on the Node
  bool if_needed = false;  // not where it stands already, or GPUs are in use
  // Of the process of one GPU; both empty otherwise.
  std::string gpu;
  std::string part;
};

// Nothing when --help or --version was answered. kInvalid for wrong usage.
base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::qualification

// Flags and environment of `pitcrew plan`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"
#include "plan/plan.h"
#include "plan/print.h"
#include "snapshot/connection.h"

namespace pitcrew::plan {

struct Arguments {
  std::string policy_file;   // "": the active policy of the cluster; "-": standard input
  std::string cluster_file;  // "" with `live`
  bool live = false;
  snapshot::Connection connection;
  Format format = Format::kDiff;
  bool uninstall = false;
  // "KIND" or "KIND/NAME": only these are printed. Empty: all.
  std::vector<std::string> only;
  Options options;
};

// Nothing when --help was printed. kInvalid "BadUsage" names the flag.
base::Result<std::optional<Arguments>> ReadArguments(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::plan

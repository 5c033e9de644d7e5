// Flags and variables of the subcommands (mig-manager.md sections 2.1 and 2.2).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::node::mig_parted {

// What stands before the subcommand.
struct GlobalOptions {
  bool debug = false;
  std::string subcommand;              // empty: only help or version was asked for
  std::vector<const char*> arguments;  // argv of the subcommand; borrowed
};
// False: help or version was printed, the program ends with 0.
base::Result<bool> ReadGlobalOptions(int argc, const char* const* argv,
                                     const base::CommandLine::Environment& environment,
                                     GlobalOptions& options);

// Every flag of every subcommand; those that a subcommand lacks stay empty.
struct Options {
  std::string config_file;
  std::string selected_config;
  std::string hooks_file;
  std::string checkpoint_file;
  std::string journal_file;
  std::string output_file;
  std::string output_format;
  std::string config_label;
  bool skip_reset = false;
  bool mode_only = false;
  bool valid_config = false;
  // The flags of the subcommand as variables, for hooks: {"MIG_PARTED_SKIP_RESET", "false"}.
  std::map<std::string, std::string> variables;
};
// False as above. kInvalid "BadUsage" after the subcommand's help was printed, where a required
// flag is missing or a format is none; kNotFound "NoSuchCommand" for another subcommand.
base::Result<bool> ReadOptions(const GlobalOptions& global,
                               const base::CommandLine::Environment& environment, Options& options);

}  // namespace pitcrew::node::mig_parted

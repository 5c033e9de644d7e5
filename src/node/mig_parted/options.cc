#include "node/mig_parted/options.h"

namespace pitcrew::node::mig_parted {
namespace {

using base::Flag;
using base::TextFlag;

const TextFlag kConfigFile{.flag = {"config-file,f", "MIG_PARTED_CONFIG_FILE",
                                    "the configuration file; - is standard input"},
                           .is_required = true};
const TextFlag kSelectedConfig{{"selected-config,c", "MIG_PARTED_SELECTED_CONFIG",
                                "which configuration of the file; needed when there are several"}};
const TextFlag kHooksFile{
    {"hooks-file,k", "MIG_PARTED_HOOKS_FILE", "programs to run before and after changes"}};
const TextFlag kJournalFile{
    .flag = {"journal-file", "MIG_PARTED_JOURNAL_FILE",
             "where the geometry before a change is kept until the change is done"},
    .fallback = "/run/nvidia/mig/journal.json"};
const TextFlag kCheckpointFile{
    .flag = {"checkpoint-file,f", "MIG_PARTED_CHECKPOINT_FILE", "the file with the saved geometry"},
    .is_required = true};
const TextFlag kOutputFormat{
    .flag = {"output-format,o", "MIG_PARTED_OUTPUT_FORMAT", "yaml or json"},
    .fallback = "yaml",
    .choices = {"yaml", "json"}};
const Flag kModeOnly{"mode-only,m", "MIG_PARTED_MODE_CHANGE_ONLY",
                     "only the MIG mode, not the instances"};

std::vector<base::Subcommand> Subcommands() {
  return {
      {"apply",
       "make this node's GPUs what a configuration says",
       {kConfigFile, kSelectedConfig, kHooksFile, kJournalFile},
       {{"skip-reset,s", "MIG_PARTED_SKIP_RESET",
         "leave a mode that needs a reset waiting for one"},
        kModeOnly}},
      {"assert",
       "end with 0 only if the GPUs are what a configuration says",
       {kConfigFile, kSelectedConfig},
       {kModeOnly,
        {"valid-config,a", "MIG_PARTED_VALID_CONFIG",
         "only check that the configuration is well-formed and has the selected name"}}},
      {"export",
       "print what the GPUs are, as a configuration",
       {kOutputFormat,
        {.flag = {"config-label,l", "MIG_PARTED_CONFIG_LABEL", "name of the configuration"},
         .fallback = "current"}}},
      {"generate-config",
       "print the configurations that this node's boards can have",
       {kOutputFormat,
        {{"output-file,f", "MIG_PARTED_OUTPUT_FILE", "where to; without it, standard output"}}}},
      {"checkpoint", "save what the GPUs are, with the places of instances", {kCheckpointFile}},
      {"restore",
       "make the GPUs what they were at a checkpoint",
       {kCheckpointFile, kHooksFile, kJournalFile},
       {kModeOnly}},
      {"recover",
       "take back a change that was cut off; apply and restore do so by themselves",
       {kJournalFile}},
  };
}

}  // namespace

const base::Subcommands& CommandLines() {
  static const base::Subcommands kCommandLines(
      "nvidia-mig-parted", "Divides this node's GPUs by MIG.",
      "nvidia-mig-parted version " PITCREW_VERSION,
      {"debug,d", "MIG_PARTED_DEBUG", "log each step, and show what hooks print"}, Subcommands());
  return kCommandLines;
}

}  // namespace pitcrew::node::mig_parted

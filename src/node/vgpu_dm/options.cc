#include "node/vgpu_dm/options.h"

namespace pitcrew::node::vgpu_dm {
namespace {

using base::Flag;
using base::TextFlag;

const TextFlag kConfigFile{
    .flag = {"config-file,f", "VGPU_DM_CONFIG_FILE", "the configuration file; - is standard input"},
    .is_required = true};
const TextFlag kSelectedConfig{{"selected-config,c", "VGPU_DM_SELECTED_CONFIG",
                                "which configuration of the file; needed when there are several"}};
const TextFlag kJournalFile{
    .flag = {"journal-file", "VGPU_DM_JOURNAL_FILE",
             "where the vGPUs before a change are kept until the change is done"},
    .fallback = "/run/nvidia/vgpu/journal.json"};
const TextFlag kHostRoot{
    .flag = {"host-root-mount,m", "HOST_ROOT_MOUNT",
             "where the host's root is mounted, to see who uses vGPUs; in a container /host"},
    .fallback = "/"};
const Flag kWithMig{"with-mig", "VGPU_DM_WITH_MIG",
                    "divide GPUs by MIG as MIG-backed vGPUs need it, and switch it off for others"};

std::vector<base::Subcommand> Subcommands() {
  return {
      {"apply",
       "make this node's vGPUs what a configuration says",
       {kConfigFile, kSelectedConfig, kJournalFile, kHostRoot},
       {kWithMig}},
      {"assert",
       "end with 0 only if the vGPUs are what a configuration says",
       {kConfigFile, kSelectedConfig},
       {{"valid-config,a", "VGPU_DM_VALID_CONFIG",
         "only check that the configuration is well-formed and has the selected name"}}},
      {"export",
       "print what the vGPUs are, as a configuration",
       {{.flag = {"output-format,o", "VGPU_DM_OUTPUT_FORMAT", "yaml or json"},
         .fallback = "yaml",
         .choices = {"yaml", "json"}},
        {.flag = {"config-label,l", "VGPU_DM_CONFIG_LABEL", "name of the configuration"},
         .fallback = "current"}}},
      {"status",
       "print each GPU with its vGPUs, who uses them, and what it could have",
       {{.flag = {"output-format,o", "VGPU_DM_OUTPUT_FORMAT", "text, yaml or json"},
         .fallback = "text",
         .choices = {"text", "yaml", "json"}},
        kHostRoot}},
      {"recover",
       "take back a change that was cut off; apply does so by itself",
       {kJournalFile, kHostRoot},
       {kWithMig}},
  };
}

}  // namespace

const base::Subcommands& CommandLines() {
  static const base::Subcommands kCommandLines(
      "nvidia-vgpu-dm", "Cuts this node's GPUs into vGPUs.",
      "nvidia-vgpu-dm version " PITCREW_VERSION, {"debug,d", "VGPU_DM_DEBUG", "log each step"},
      Subcommands());
  return kCommandLines;
}

}  // namespace pitcrew::node::vgpu_dm

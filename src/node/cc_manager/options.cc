#include "node/cc_manager/options.h"

#include <fmt/format.h>

#include "node/cc_mode/mode.h"

namespace pitcrew::node::cc_manager {
namespace {

using Text = std::optional<std::string>;

struct Flags {
  Text kubeconfig, node_name, namespace_name, default_mode, ready_file, pause_operands, host_root;
  std::optional<bool> debug;

  void AddTo(base::CommandLine& line) {
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
    line.Add({"node-name", "NODE_NAME", "this node"}, &node_name);
    line.Add({"default-cc-mode,m", "DEFAULT_CC_MODE",
              "the mode of a node without the label nvidia.com/cc.mode: on, off, devtools, ppcie"},
             &default_mode);
    line.Add({"operator-namespace", "OPERATOR_NAMESPACE",
              "where the operands run that are paused; by default this pod's own namespace"},
             &namespace_name);
    line.Add(
        {"readiness-file", "CC_READINESS_FILE", "the file that says that the mode is as wanted"},
        &ready_file);
    line.Add({"evict-operator-components", "EVICT_OPERATOR_COMPONENTS",
              "pause the operands that use GPUs while the mode changes: true or false"},
             &pause_operands);
    line.Add({"host-root", "HOST_ROOT", "where the host's root is mounted, with its /proc"},
             &host_root);
    line.Add({"debug", "", "accepted, without effect"}, &debug);
  }
};

base::Result<std::string> ReadMode(const Text& text) {
  if (!text || text->empty()) return std::string("on");
  TRY_ASSIGN(const auto mode, cc_mode::ParseMode(*text));
  return std::string(cc_mode::ToString(mode));
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  Flags flags;
  base::CommandLine line("k8s-cc-manager",
                         "Puts this node's GPUs into the mode of confidential computing that its "
                         "label nvidia.com/cc.mode says.",
                         "k8s-cc-manager version " PITCREW_VERSION);
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  if (flags.node_name.value_or("").empty()) {
    return base::Fail(
        base::Invalid("InvalidOption", "the node's name is missing: set --node-name or NODE_NAME"));
  }
  Options options;
  auto mode = ReadMode(flags.default_mode);
  if (!mode) return base::Fail(mode.error().Within("--default-cc-mode (DEFAULT_CC_MODE)"));
  options.default_mode = *std::move(mode);
  options.kubeconfig = flags.kubeconfig.value_or("");
  options.node_name = *flags.node_name;
  options.namespace_name = flags.namespace_name.value_or("");
  if (flags.ready_file && !flags.ready_file->empty()) options.ready_file = *flags.ready_file;
  // As upstream reads it: any other word than true is false.
  if (flags.pause_operands) {
    options.pause_operands = flags.pause_operands == "true" || flags.pause_operands == "True" ||
                             flags.pause_operands == "TRUE";
  }
  if (flags.host_root) options.host_root = *flags.host_root;
  return options;
}

}  // namespace pitcrew::node::cc_manager

#include "node/config_manager/options.h"

#include <fmt/format.h>

#include <csignal>

#include "api/labels.h"

namespace pitcrew::node::config_manager {
namespace {

base::Status Check(const Options& options) {
  const std::pair<const char*, bool> required[] = {
      {"--node-name (NODE_NAME)", options.node_name.empty()},
      {"--node-label (NODE_LABEL)", options.node_label.empty()},
      {"--config-file-srcdir (CONFIG_FILE_SRCDIR)", options.source.empty()},
      {"--config-file-dst (CONFIG_FILE_DST)", options.destination.empty()},
      {"--process-to-signal (PROCESS_TO_SIGNAL), or --send-signal=false",
       options.send_signal && options.process.empty()}};
  for (const auto& [flag, missing] : required) {
    if (missing)
      return base::Fail(base::Invalid("BadUsage", fmt::format("{} has to be set", flag)));
  }
  if (options.signal < 1 || options.signal >= NSIG) {
    return base::Fail(
        base::Invalid("BadUsage", fmt::format("--signal is {}; it must be the number of a signal, "
                                              "such as 1 for SIGHUP",
                                              options.signal)));
  }
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  base::CommandLine line("config-manager",
                         "Links the configuration that a label of this node names, and tells a "
                         "process about it",
                         "config-manager version " PITCREW_VERSION);
  std::optional<bool> oneshot;
  std::optional<std::string> kubeconfig;
  std::optional<std::string> node_name;
  std::optional<std::string> node_label;
  std::optional<std::string> source;
  std::optional<std::string> destination;
  std::optional<std::string> default_config;
  std::optional<std::vector<std::string>> fallback_strategies;
  std::optional<bool> send_signal;
  std::optional<std::int64_t> signal;
  std::optional<std::string> process;
  line.Add({"oneshot", "ONESHOT", "link once and end"}, &oneshot);
  line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; empty: in-cluster"}, &kubeconfig);
  line.Add({"node-name", "NODE_NAME", "name of this node"}, &node_name);
  line.Add({"node-label", "NODE_LABEL", "label of the node that names the configuration"},
           &node_label);
  line.Add({"config-file-srcdir", "CONFIG_FILE_SRCDIR",
            "folder with the configurations, mostly a mounted ConfigMap"},
           &source);
  line.Add({"config-file-dst", "CONFIG_FILE_DST", "link to the chosen configuration"},
           &destination);
  line.Add({"default-config", "DEFAULT_CONFIG", "configuration of a node without the label"},
           &default_config);
  line.Add({"fallback-strategies", "FALLBACK_STRATEGIES",
            "what to choose without label and default, in this order: named (the one called "
            "default), single (the only one), empty (none)"},
           &fallback_strategies);
  line.Add({"send-signal", "SEND_SIGNAL", "tell the process when its configuration changed"},
           &send_signal);
  line.Add({"signal", "SIGNAL", "number of that signal"}, &signal);
  line.Add({"process-to-signal", "PROCESS_TO_SIGNAL", "argv[0] of that process, or its last part"},
           &process);
  TRY_ASSIGN(const bool run, line.Parse(argc, argv, environment));
  if (!run) return std::nullopt;
  Options options;
  options.oneshot = oneshot.value_or(false);
  options.kubeconfig = kubeconfig.value_or("");
  options.node_name = node_name.value_or("");
  options.node_label = node_label.value_or(std::string(api::kDevicePluginConfig));
  options.source = source.value_or("");
  options.destination = destination.value_or("");
  options.default_config = default_config.value_or("");
  options.fallback_strategies = fallback_strategies.value_or(std::vector<std::string>());
  options.send_signal = send_signal.value_or(true);
  options.signal = static_cast<int>(signal.value_or(SIGHUP));
  options.process = process.value_or("nvidia-device-plugin");
  TRY(Check(options));
  return options;
}

}  // namespace pitcrew::node::config_manager

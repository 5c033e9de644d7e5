#include "node/vfio_manager/options.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "base/clock.h"

namespace pitcrew::node::vfio_manager {
namespace {

using base::CommandLine;

constexpr std::string_view kVersion = "vfio-manage version " PITCREW_VERSION;

struct Subcommand {
  Action action;
  std::string_view name;
  std::string_view help;
  std::chrono::seconds timeout;
};
// The pod's end has 30 seconds for the unbinding in its preStop hook.
constexpr std::array<Subcommand, 3> kSubcommands = {{
    {Action::kBind, "bind", "give GPUs to VFIO, for virtual machines", std::chrono::seconds(60)},
    {Action::kUnbind, "unbind", "take GPUs from VFIO, for the node's own driver",
     std::chrono::seconds(20)},
    {Action::kStatus, "status", "show who has which GPU, and what keeps it from VFIO",
     std::chrono::seconds(0)},
}};

base::Status Refuse(std::string message) {
  return base::Fail(base::Invalid("BadUsage", std::move(message)));
}

struct Flags {
  std::optional<bool> all, switches, follow;
  std::optional<std::string> device, host_root, timeout, node_name, kubeconfig, format;

  void AddTo(CommandLine& line, Action action) {
    line.Add({"host-root", "HOST_ROOT", "where the node's root file system is (default /)"},
             &host_root);
    if (action == Action::kStatus) {
      line.Add({"output,o", "", "table (default), json or yaml"}, &format);
      return;
    }
    const bool bind = action == Action::kBind;
    line.Add({"all,a", "", "all NVIDIA GPUs that are no virtual functions"}, &all);
    line.Add({"device-id,d", "", "one device by its PCI address, for example 0000:01:00.0"},
             &device);
    line.Add({bind ? "bind-nvswitches" : "unbind-nvswitches", "BIND_NVSWITCHES", "NVSwitches too"},
             &switches);
    if (bind) {
      line.Add({"follow", "VFIO_MANAGE_FOLLOW",
                "stay, and do the same to devices that are plugged in later (with --all)"},
               &follow);
    }
    line.Add({"timeout", "VFIO_MANAGE_TIMEOUT",
              bind ? "how long programs that use a GPU are waited for (default 60s)"
                   : "how long virtual machines that use a GPU are waited for (default 20s)"},
             &timeout);
    line.Add({"node-name", "NODE_NAME", "this node, whose Events tell what happened; none without"},
             &node_name);
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file for the Events; in-cluster without it"},
             &kubeconfig);
  }
};

void PrintHelp() {
  std::string text =
      "Usage: vfio-manage COMMAND [OPTIONS]\n\nGives this node's GPUs to virtual machines, and "
      "takes "
      "them back.\n\nCommands (each has --help):\n";
  for (const auto& subcommand : kSubcommands) {
    text += fmt::format("  {:<8} {}\n", subcommand.name, subcommand.help);
  }
  fmt::print("{}", text);
}

const Subcommand* FindSubcommand(std::string_view name) {
  for (const auto& subcommand : kSubcommands) {
    if (subcommand.name == name) return &subcommand;
  }
  return nullptr;
}

base::Result<Format> ParseFormat(const std::string& text) {
  if (text.empty() || text == "table") return Format::kTable;
  if (text == "json") return Format::kJson;
  if (text == "yaml") return Format::kYaml;
  TRY(Refuse(fmt::format("the output \"{}\" is none of table, json and yaml", text)));
  return Format::kTable;
}

base::Status Fill(const Subcommand& subcommand, const Flags& flags, Options& options) {
  options.action = subcommand.action;
  options.all = flags.all.value_or(false);
  options.device = flags.device.value_or("");
  options.switches = flags.switches.value_or(false);
  // In a pod the variable is there for every call; of one device it is not meant.
  options.follow = flags.follow.value_or(false) && options.all;
  if (flags.host_root && !flags.host_root->empty()) options.host_root = *flags.host_root;
  options.node_name = flags.node_name.value_or("");
  options.kubeconfig = flags.kubeconfig.value_or("");
  TRY_ASSIGN(options.format, ParseFormat(flags.format.value_or("")));
  options.timeout = subcommand.timeout;
  if (flags.timeout && !flags.timeout->empty()) {
    const auto timeout = base::ParseGoDuration(*flags.timeout);
    if (!timeout || timeout->count() < 0) {
      return Refuse(
          fmt::format("the timeout is \"{}\"; it takes a duration with its unit, for "
                      "example 90s",
                      *flags.timeout));
    }
    options.timeout = *timeout;
  }
  if (subcommand.action == Action::kStatus) return {};
  if (!options.all && options.device.empty()) {
    return Refuse("either --all or --device-id must be specified");
  }
  if (options.all && !options.device.empty()) {
    return Refuse("cannot specify both --all and --device-id");
  }
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(int argc, const char* const* argv,
                                                 const CommandLine::Environment& environment) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first.empty() || first == "--help" || first == "-h" || first == "help") {
    PrintHelp();
    return std::nullopt;
  }
  if (first == "--version" || first == "-v") {
    fmt::print("{}\n", kVersion);
    return std::nullopt;
  }
  const auto* subcommand = FindSubcommand(first);
  if (subcommand == nullptr) {
    TRY(Refuse(fmt::format("there is no command \"{}\"; it is bind, unbind or status", first)));
  }
  Flags flags;
  CommandLine line(fmt::format("vfio-manage {}", subcommand->name), subcommand->help, kVersion);
  flags.AddTo(line, subcommand->action);
  TRY_ASSIGN(const bool goes_on, line.Parse(argc - 1, argv + 1, environment));
  if (!goes_on) return std::nullopt;
  Options options;
  TRY(Fill(*subcommand, flags, options));
  return options;
}

}  // namespace pitcrew::node::vfio_manager

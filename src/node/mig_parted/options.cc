#include "node/mig_parted/options.h"

#include <fmt/format.h>

#include <optional>

namespace pitcrew::node::mig_parted {
namespace {

using base::CommandLine;

constexpr std::string_view kVersion = "nvidia-mig-parted version " PITCREW_VERSION;

struct TextFlag {
  base::Flag flag;
  std::string Options::* target;
  std::string_view fallback;
  bool is_required = false;
};
struct SwitchFlag {
  base::Flag flag;
  bool Options::* target;
};
struct Subcommand {
  std::string_view name;
  std::string_view help;
  std::vector<TextFlag> texts;
  std::vector<SwitchFlag> switches;
};

const TextFlag kConfigFile{
    {"config-file,f", "MIG_PARTED_CONFIG_FILE", "the configuration file; - is standard input"},
    &Options::config_file,
    "",
    true};
const TextFlag kSelectedConfig{{"selected-config,c", "MIG_PARTED_SELECTED_CONFIG",
                                "which configuration of the file; needed when there are several"},
                               &Options::selected_config,
                               ""};
const TextFlag kHooksFile{
    {"hooks-file,k", "MIG_PARTED_HOOKS_FILE", "programs to run before and after changes"},
    &Options::hooks_file,
    ""};
const TextFlag kJournalFile{{"journal-file", "MIG_PARTED_JOURNAL_FILE",
                             "where the geometry before a change is kept until the change is done"},
                            &Options::journal_file,
                            "/run/nvidia/mig/journal.json"};
const TextFlag kCheckpointFile{
    {"checkpoint-file,f", "MIG_PARTED_CHECKPOINT_FILE", "the file with the saved geometry"},
    &Options::checkpoint_file,
    "",
    true};
const TextFlag kOutputFormat{{"output-format,o", "MIG_PARTED_OUTPUT_FORMAT", "yaml or json"},
                             &Options::output_format,
                             "yaml"};
const SwitchFlag kModeOnly{
    {"mode-only,m", "MIG_PARTED_MODE_CHANGE_ONLY", "only the MIG mode, not the instances"},
    &Options::mode_only};

const std::vector<Subcommand>& Subcommands() {
  static const std::vector<Subcommand> kSubcommands = {
      {"apply",
       "make this node's GPUs what a configuration says",
       {kConfigFile, kSelectedConfig, kHooksFile, kJournalFile},
       {{{"skip-reset,s", "MIG_PARTED_SKIP_RESET",
          "leave a mode that needs a reset waiting for one"},
         &Options::skip_reset},
        kModeOnly}},
      {"assert",
       "end with 0 only if the GPUs are what a configuration says",
       {kConfigFile, kSelectedConfig},
       {kModeOnly,
        {{"valid-config,a", "MIG_PARTED_VALID_CONFIG",
          "only check that the configuration is well-formed and has the selected name"},
         &Options::valid_config}}},
      {"export",
       "print what the GPUs are, as a configuration",
       {kOutputFormat,
        {{"config-label,l", "MIG_PARTED_CONFIG_LABEL", "name of the configuration"},
         &Options::config_label,
         "current"}},
       {}},
      {"generate-config",
       "print the configurations that this node's boards can have",
       {kOutputFormat,
        {{"output-file,f", "MIG_PARTED_OUTPUT_FILE", "where to; without it, standard output"},
         &Options::output_file,
         ""}},
       {}},
      {"checkpoint", "save what the GPUs are, with the places of instances", {kCheckpointFile}, {}},
      {"restore",
       "make the GPUs what they were at a checkpoint",
       {kCheckpointFile, kHooksFile, kJournalFile},
       {kModeOnly}},
      {"recover",
       "take back a change that was cut off; apply and restore do so by themselves",
       {kJournalFile},
       {}},
  };
  return kSubcommands;
}

std::string Description() {
  std::string text = "Divides this node's GPUs by MIG.\n\nCommands (each has --help):\n";
  for (const auto& subcommand : Subcommands()) {
    text += fmt::format("  {:<16} {}\n", subcommand.name, subcommand.help);
  }
  return text;
}

const Subcommand* FindSubcommand(std::string_view name) {
  for (const auto& subcommand : Subcommands()) {
    if (subcommand.name == name) return &subcommand;
  }
  return nullptr;
}

// The variable of a flag, "MIG_PARTED_CONFIG_FILE".
std::string VariableOf(const base::Flag& flag) { return std::string(flag.environment); }

base::Result<bool> Parse(const Subcommand& subcommand, int argc, const char* const* argv,
                         const CommandLine::Environment& environment, Options& options) {
  CommandLine line(fmt::format("nvidia-mig-parted {}", subcommand.name), subcommand.help, kVersion);
  std::vector<std::optional<std::string>> texts(subcommand.texts.size());
  std::vector<std::optional<bool>> switches(subcommand.switches.size());
  for (std::size_t i = 0; i < texts.size(); ++i) line.Add(subcommand.texts[i].flag, &texts[i]);
  for (std::size_t i = 0; i < switches.size(); ++i) {
    line.Add(subcommand.switches[i].flag, &switches[i]);
  }
  TRY_ASSIGN(const bool goes_on, line.Parse(argc, argv, environment));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& flag = subcommand.texts[i];
    options.*flag.target = texts[i].value_or(std::string(flag.fallback));
    options.variables[VariableOf(flag.flag)] = options.*flag.target;
  }
  for (std::size_t i = 0; i < switches.size(); ++i) {
    const auto& flag = subcommand.switches[i];
    options.*flag.target = switches[i].value_or(false);
    options.variables[VariableOf(flag.flag)] = options.*flag.target ? "true" : "false";
  }
  return goes_on;
}

void PrintHelp(const Subcommand& subcommand) {
  const char* const words[] = {"nvidia-mig-parted", "--help"};
  Options unused;
  (void)Parse(subcommand, 2, words, CommandLine::Process(), unused);
}

base::Status CheckValues(const Subcommand& subcommand, const Options& options) {
  for (const auto& flag : subcommand.texts) {
    if (flag.is_required && (options.*flag.target).empty()) {
      const auto name = flag.flag.names.substr(0, flag.flag.names.find(','));
      return base::Fail(
          base::Invalid("BadUsage", fmt::format("missing required flags '{}'", name)));
    }
    const bool is_format = flag.target == &Options::output_format;
    if (is_format && options.output_format != "yaml" && options.output_format != "json") {
      return base::Fail(base::Invalid(
          "BadUsage", fmt::format("unrecognized 'output-format': {}; it is yaml or json",
                                  options.output_format)));
    }
  }
  return {};
}

}  // namespace

base::Result<bool> ReadGlobalOptions(int argc, const char* const* argv,
                                     const CommandLine::Environment& environment,
                                     GlobalOptions& options) {
  // Everything up to the first word that is no flag: no flag here takes a value of its own.
  int end = 1;
  while (end < argc && argv[end][0] == '-') ++end;
  const std::string_view word = end < argc ? argv[end] : "";
  const char* const help[] = {argv[0], "--help"};
  const bool wants_help = word.empty() ? end == 1 : word == "help" || word == "h";
  CommandLine line("nvidia-mig-parted", Description(), kVersion);
  std::optional<bool> debug;
  line.Add({"debug,d", "MIG_PARTED_DEBUG", "log each step, and show what hooks print"}, &debug);
  TRY_ASSIGN(const bool goes_on,
             wants_help ? line.Parse(2, help, environment) : line.Parse(end, argv, environment));
  if (!goes_on) return false;
  if (word.empty()) {
    return base::Fail(base::Invalid("BadUsage", "no command is named; --help lists them"));
  }
  options.debug = debug.value_or(false);
  options.subcommand = word;
  options.arguments.assign(argv + end, argv + argc);
  return true;
}

base::Result<bool> ReadOptions(const GlobalOptions& global,
                               const CommandLine::Environment& environment, Options& options) {
  const Subcommand* subcommand = FindSubcommand(global.subcommand);
  if (subcommand == nullptr) {
    return base::Fail(base::NotFound(
        "NoSuchCommand",
        fmt::format("there is no command {}; --help lists them", global.subcommand)));
  }
  TRY_ASSIGN(const bool goes_on, Parse(*subcommand, static_cast<int>(global.arguments.size()),
                                       global.arguments.data(), environment, options));
  if (!goes_on) return false;
  if (const auto checked = CheckValues(*subcommand, options); !checked) {
    PrintHelp(*subcommand);
    return base::Fail(checked.error());
  }
  return true;
}

}  // namespace pitcrew::node::mig_parted

#include "base/subcommands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace pitcrew::base {
namespace {

std::string RealName(const Flag& flag) {
  return std::string(flag.names.substr(0, flag.names.find(',')));
}

Status CheckTexts(const Subcommand& subcommand, const SubcommandCall& call) {
  for (const auto& text : subcommand.texts) {
    const auto name = RealName(text.flag);
    const auto value = call.Text(name);
    if (text.is_required && value.empty()) {
      return Fail(Invalid("BadUsage", fmt::format("missing required flags '{}'", name)));
    }
    const auto& choices = text.choices;
    if (choices.empty() || std::ranges::find(choices, value) != choices.end()) continue;
    return Fail(Invalid("BadUsage", fmt::format("unrecognized '{}': {}; it is {}", name, value,
                                                Join({choices.begin(), choices.end()}, " or "))));
  }
  return {};
}

}  // namespace

std::string SubcommandCall::Text(std::string_view flag) const {
  const auto found = texts.find(flag);
  return found == texts.end() ? std::string() : found->second;
}

bool SubcommandCall::Switch(std::string_view flag) const {
  const auto found = switches.find(flag);
  return found != switches.end() && found->second;
}

Subcommands::Subcommands(std::string_view program, std::string_view purpose,
                         std::string_view version, Flag debug, std::vector<Subcommand> subcommands)
    : program_(program),
      purpose_(purpose),
      version_(version),
      debug_(debug),
      subcommands_(std::move(subcommands)) {}

std::string Subcommands::Description() const {
  auto text = fmt::format("{}\n\nCommands (each has --help):\n", purpose_);
  for (const auto& subcommand : subcommands_) {
    text += fmt::format("  {:<16} {}\n", subcommand.name, subcommand.help);
  }
  return text;
}

Result<const Subcommand*> Subcommands::Find(std::string_view name) const {
  const auto found = std::ranges::find(subcommands_, name, &Subcommand::name);
  if (found != subcommands_.end()) return &*found;
  return Fail(
      NotFound("NoSuchCommand", fmt::format("there is no command {}; --help lists them", name)));
}

Result<bool> Subcommands::Parse(const Subcommand& subcommand, int argc, const char* const* argv,
                                const CommandLine::Environment& environment,
                                SubcommandCall& call) const {
  const auto title = fmt::format("{} {}", program_, subcommand.name);
  CommandLine line(title, subcommand.help, version_);
  std::vector<std::optional<std::string>> texts(subcommand.texts.size());
  std::vector<std::optional<bool>> switches(subcommand.switches.size());
  for (std::size_t i = 0; i < texts.size(); ++i) line.Add(subcommand.texts[i].flag, &texts[i]);
  for (std::size_t i = 0; i < switches.size(); ++i) line.Add(subcommand.switches[i], &switches[i]);
  TRY_ASSIGN(const bool goes_on, line.Parse(argc, argv, environment));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& text = subcommand.texts[i];
    const auto value = texts[i].value_or(std::string(text.fallback));
    call.texts[RealName(text.flag)] = value;
    call.variables[std::string(text.flag.environment)] = value;
  }
  for (std::size_t i = 0; i < switches.size(); ++i) {
    const bool value = switches[i].value_or(false);
    call.switches[RealName(subcommand.switches[i])] = value;
    call.variables[std::string(subcommand.switches[i].environment)] = value ? "true" : "false";
  }
  return goes_on;
}

Result<std::optional<SubcommandCall>> Subcommands::Read(
    int argc, const char* const* argv, const CommandLine::Environment& environment) const {
  // Everything up to the first word that is no flag: no flag here takes a value of its own.
  int end = 1;
  while (end < argc && argv[end][0] == '-') ++end;
  const std::string_view word = end < argc ? argv[end] : "";
  const char* const help[] = {argv[0], "--help"};
  const bool wants_help = word.empty() ? end == 1 : word == "help" || word == "h";
  const auto description = Description();
  CommandLine line(program_, description, version_);
  std::optional<bool> debug;
  line.Add(debug_, &debug);
  TRY_ASSIGN(const bool goes_on,
             wants_help ? line.Parse(2, help, environment) : line.Parse(end, argv, environment));
  if (!goes_on) return std::nullopt;
  if (word.empty()) return Fail(Invalid("BadUsage", "no command is named; --help lists them"));
  TRY_ASSIGN(const auto* subcommand, Find(word));
  SubcommandCall call;
  call.debug = debug.value_or(false);
  call.subcommand = word;
  TRY_ASSIGN(const bool has_options, Parse(*subcommand, argc - end, argv + end, environment, call));
  if (!has_options) return std::nullopt;
  if (const auto checked = CheckTexts(*subcommand, call); !checked) {
    const char* const words[] = {program_.data(), "--help"};
    SubcommandCall unused;
    (void)Parse(*subcommand, 2, words, environment, unused);
    return Fail(checked.error());
  }
  return call;
}

}  // namespace pitcrew::base

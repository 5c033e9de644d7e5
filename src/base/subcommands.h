// Programs with subcommands, as upstream's Go programs read theirs (urfave/cli v2): flags of the
// program, a subcommand, the subcommand's own flags (mig-manager.md section 2,
// vgpu-device-manager.md section 2).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::base {

struct TextFlag {
  Flag flag;
  std::string_view fallback = {};
  bool is_required = false;                    // and not empty
  std::vector<std::string_view> choices = {};  // nothing: any text
};

struct Subcommand {
  std::string_view name;
  std::string_view help;
  std::vector<TextFlag> texts = {};
  std::vector<Flag> switches = {};
};

// What one command line asks for.
struct SubcommandCall {
  bool debug = false;
  std::string subcommand;
  // By a flag's real name; each of the subcommand's flags, with its default where it is not given.
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, bool, std::less<>> switches;
  // The same by variable: {"MIG_PARTED_SKIP_RESET", "false"}.
  std::map<std::string, std::string> variables;

  // Of a flag that the subcommand lacks: "" and false.
  [[nodiscard]] std::string Text(std::string_view flag) const;
  [[nodiscard]] bool Switch(std::string_view flag) const;
};

class Subcommands {
 public:
  // `debug` is the program's own flag.
  Subcommands(std::string_view program, std::string_view purpose, std::string_view version,
              Flag debug, std::vector<Subcommand> subcommands);

  // Nothing: help or version was printed, the program ends with 0. kInvalid "BadUsage" names what
  // is missing or wrong; after the subcommand's help was printed where a required flag is missing
  // or a text is none of its choices. kNotFound "NoSuchCommand" for another subcommand.
  Result<std::optional<SubcommandCall>> Read(
      int argc, const char* const* argv,
      const CommandLine::Environment& environment = CommandLine::Process()) const;

 private:
  Result<bool> Parse(const Subcommand& subcommand, int argc, const char* const* argv,
                     const CommandLine::Environment& environment, SubcommandCall& call) const;
  Result<const Subcommand*> Find(std::string_view name) const;
  [[nodiscard]] std::string Description() const;

  const std::string_view program_;
  const std::string_view purpose_;
  const std::string_view version_;
  const Flag debug_;
  const std::vector<Subcommand> subcommands_;
};

}  // namespace pitcrew::base

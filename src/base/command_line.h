// A program's flags, read as upstream's Go programs read theirs (urfave/cli v2; device-plugin.md
// section 3.1): the command line wins over the environment, and a flag that is in neither stays
// unset, so that a configuration file or a default can speak. "-name", "--name", "--name value" and
// "--name=value" are all accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::base {

struct Flag {
  std::string_view names;        // "driver-root,nvidia-driver-root": the first is the real name
  std::string_view environment;  // "A,B": the first one that is present wins; empty: none
  std::string_view help;
};

// Declares flags, then reads them once. Targets must live until Parse returns.
class CommandLine {
 public:
  // Looks up one environment variable; nullopt when it is not present.
  using Environment = std::function<std::optional<std::string>(const std::string& name)>;
  // Text for --version, printed as it is with a newline.
  CommandLine(std::string_view program, std::string_view description, std::string_view version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // A present but empty variable counts as the empty text.
  void Add(const Flag& flag, std::optional<std::string>* target);
  // Go's ParseBool words; a present but empty variable counts as false.
  void Add(const Flag& flag, std::optional<bool>* target);
  // Split at commas and trimmed, repeatable; a present but empty variable is one empty element.
  void Add(const Flag& flag, std::optional<std::vector<std::string>>* target);
  // Every occurrence as it was written, commas and all.
  void AddEach(const Flag& flag, std::vector<std::string>* target);
  // A present but empty variable counts as not set. Decimal, 0x, 0o and 0b numbers.
  void Add(const Flag& flag, std::optional<std::int64_t>* target);
  void Add(const Flag& flag, std::optional<std::vector<std::int64_t>>* target);
  void Add(const Flag& flag, std::optional<double>* target);

  // Words that are no flags, in order; without this they are a usage error. `name` is for the help.
  // They may stand before, between and after the flags.
  void AddWords(std::string_view name, std::string_view help, std::vector<std::string>* target);

  // False when --help or --version was asked for and printed: the program ends with 0. kInvalid
  // "BadUsage" names the flag or variable and what would be right.
  Result<bool> Parse(int argc, const char* const* argv, const Environment& environment = Process());

  // The process's own environment.
  static Environment Process();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::base

#include "node/ctk/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/options.h"
#include "shim/cdi_hook.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::kFailure;
using toolkit::kUsage;

struct Subcommand {
  std::vector<std::string_view> words;
  std::string_view help;
  base::Status (*run)(const GlobalFlags& global, int argc, char** argv);
};

// The longer of two that begin alike comes first.
const std::vector<Subcommand>& Subcommands() {
  static const std::vector<Subcommand> commands = {
      {{"cdi", "generate"}, "write a CDI specification of this node's devices", GenerateCdi},
      {{"cdi", "list"}, "print the names of all CDI devices", ListCdi},
      {{"cdi", "transform", "root"},
       "put another root in front of a specification's paths",
       TransformCdiRoot},
      {{"info"}, "print what this node is and has", ShowInfo},
      {{"config", "default"}, "print the default config.toml", ShowDefaultConfig},
      {{"config", "create-default"}, "the same", ShowDefaultConfig},
      {{"config", "generate-default"}, "the same", ShowDefaultConfig},
      {{"config"}, "print or change config.toml", ShowConfig},
      {{"runtime", "configure"}, "add the NVIDIA runtime to a container engine", ConfigureRuntime},
      {{"system", "create-device-nodes"},
       "make the driver's control device nodes",
       CreateDeviceNodes},
      {{"system", "create-dev-char-symlinks"},
       "link the driver's device nodes in /dev/char",
       CreateDevCharLinks},
  };
  return commands;
}

bool BeginsWith(const Subcommand& command, std::span<char* const> words) {
  return words.size() <= command.words.size() &&
         std::equal(words.begin(), words.end(), command.words.begin());
}

// Of the commands that begin with these words, or of all.
int PrintUsage(std::FILE* out, std::span<char* const> words = {}) {
  fmt::print(out, "usage: nvidia-ctk [--debug] [--quiet] [--config FILE] COMMAND [FLAGS]\n\n");
  for (const auto& command : Subcommands()) {
    if (!BeginsWith(command, words)) continue;
    fmt::print(out, "  {:<32} {}\n", fmt::format("{}", fmt::join(command.words, " ")),
               command.help);
  }
  if (words.empty())
    fmt::print(out, "  {:<32} {}\n", "hook NAME", "what CDI specifications run: nvidia-cdi-hook");
  return out == stdout ? 0 : kUsage;
}

int Report(const base::Status& status) {
  if (status) return 0;
  base::LogError("nvidia-ctk failed", status.error());
  return status.error().code == base::Code::kInvalid ? kUsage : kFailure;
}

bool IsCommand(const Subcommand& command, int argc, char** argv) {
  if (std::cmp_less(argc, command.words.size())) return false;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    if (command.words[i] != argv[i]) return false;
  }
  return true;
}

// "cdi", "cdi --help", "help cdi" and no word at all ask for help, as upstream's do.
bool AsksForHelp(std::span<char* const>& words) {
  const auto is_help = [](std::string_view word) {
    return word == "--help" || word == "-h" || word == "help" || word == "h";
  };
  if (words.empty()) return true;
  if (is_help(words.front())) {
    words = words.subspan(1);
  } else if (is_help(words.back())) {
    words = words.first(words.size() - 1);
  }
  return std::ranges::any_of(Subcommands(), [&](const Subcommand& command) {
    return words.size() < command.words.size() && BeginsWith(command, words);
  });
}

int RunCommand(const GlobalFlags& global, int argc, char** argv) {
  if (argc > 0 && std::string_view(argv[0]) == "hook") return shim::RunCdiHook(argc, argv);
  for (const auto& command : Subcommands()) {
    if (!IsCommand(command, argc, argv)) continue;
    const int words = static_cast<int>(command.words.size());
    return Report(command.run(global, argc - words + 1, argv + words - 1));
  }
  std::span<char* const> words(argv, static_cast<std::size_t>(argc));
  if (AsksForHelp(words)) return PrintUsage(stdout, words);
  return PrintUsage(stderr);
}

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && base::ParseGoBool(value).value_or(false);
}

// A pipe or a terminal, "/dev/stdout": nothing can take its place.
base::Status WriteInto(const std::string& text, const std::string& output) {
  std::FILE* file = std::fopen(output.c_str(), "we");
  if (file == nullptr) return base::Fail(base::FromErrno(errno, "open " + output));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && written) return {};
  return base::Fail(base::FromErrno(errno, "write " + output));
}

}  // namespace

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

base::Status WriteResult(const std::string& text, const std::string& output) {
  if (output.empty()) {
    Print(text);
    return {};
  }
  std::error_code ignored;
  const auto there = std::filesystem::status(output, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return WriteInto(text, output);
  }
  return toolkit::EngineFileStore("/").Put({std::filesystem::absolute(output), text});
}

int Command(int argc, char** argv) {
  GlobalFlags global;
  bool debug = IsSet("NVIDIA_CTK_DEBUG");
  bool quiet = IsSet("NVIDIA_CTK_QUIET");
  if (const char* config = std::getenv("NVIDIA_CTK_CONFIG")) global.config = config;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    const std::string_view flag = argv[at];
    if (flag == "--debug" || flag == "-d") {
      debug = true;
    } else if (flag == "--quiet") {
      quiet = true;
    } else if (flag.starts_with("--config=")) {
      global.config = flag.substr(9);
    } else if (flag == "--config" && at + 1 < argc) {
      global.config = argv[++at];
    } else if (flag == "--version" || flag == "-v") {
      fmt::print("NVIDIA Container Toolkit CLI version {} (Pitcrew)\n", PITCREW_VERSION);
      return 0;
    } else {
      return PrintUsage(flag == "--help" || flag == "-h" ? stdout : stderr);
    }
  }
  if (debug || quiet) {
    base::ConfigureLog({.level = quiet ? base::LogLevel::kError : base::LogLevel::kDebug});
  }
  return RunCommand(global, argc - at, argv + at);
}

}  // namespace pitcrew::node::ctk

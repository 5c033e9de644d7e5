// argv and wiring: picks the command by subcommand, or by the name that the program was started
// with or that is its first argument.
#include <fmt/format.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "main/command_headers.h"

namespace {

struct CommandEntry {
  std::string_view name;     // "device-plugin", or two words: "nfd worker"
  std::string_view aliases;  // upstream's program names, separated by spaces
  int (*run)(int argc, char** argv);
  std::string_view help;
};

constexpr CommandEntry kCommands[] = {
#define COMMAND(name, aliases, function, help) {name, aliases, function, help},
#include "main/commands.def"
#undef COMMAND
    {"", "", nullptr, ""},
};

// kubectl runs a program of this name for "kubectl pitcrew COMMAND".
constexpr std::string_view kKubectlPlugin = "kubectl-pitcrew";

int PrintUsage(std::FILE* out, std::string_view program) {
  const std::string_view name = program == kKubectlPlugin ? "kubectl pitcrew" : "pitcrew";
  fmt::print(out,
             "Pitcrew: a GPU Operator for Kubernetes (version {})\n\nusage: {} COMMAND "
             "[OPTIONS]\n\ncommands:\n",
             PITCREW_VERSION, name);
  for (const auto& command : kCommands) {
    if (command.run != nullptr) fmt::print(out, "  {:<23} {}\n", command.name, command.help);
  }
  fmt::print(out, "\n'{} COMMAND --help' tells the options of one command.\n", name);
  return out == stdout ? 0 : 2;
}

bool HasAlias(const CommandEntry& command, std::string_view program) {
  for (const auto& alias : pitcrew::base::SplitTrimmed(command.aliases, ' ')) {
    if (alias == program) return true;
  }
  return false;
}

// Runs `command` with the words of its own name taken off: argv[0] becomes "pitcrew NAME".
int Run(const CommandEntry& command, int argc, char** argv, int words) {
  std::string name = words == 0 ? argv[0] : fmt::format("pitcrew {}", command.name);
  argv[words] = name.data();
  return command.run(argc - words, argv + words);
}

// A container whose manifest names no program, because NVIDIA's image starts its own, says in this
// variable which one this image is to start. What people call by name in it stays what they call.
constexpr const char* kDefaultCommand = "PITCREW_COMMAND";

const CommandEntry* DefaultCommand(int argc, char** argv) {
  const char* name = std::getenv(kDefaultCommand);
  if (name == nullptr || (argc > 1 && argv[1][0] != '-')) return nullptr;
  for (const auto& command : kCommands) {
    if (command.run != nullptr && HasAlias(command, name)) return &command;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  // Every command has a few busy threads at most and runs for months: one arena, and freed memory
  // given back at once, keep a third of the operator's memory from staying behind after its first
  // list of a large fleet.
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TRIM_THRESHOLD, 128 * 1024);
  ::mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  const std::string program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  for (const auto& command : kCommands) {
    if (command.run != nullptr && HasAlias(command, program)) return Run(command, argc, argv, 0);
  }
  if (const auto* command = DefaultCommand(argc, argv)) return Run(*command, argc, argv, 0);
  if (argc < 2) return PrintUsage(stderr, program);
  const std::string_view first = argv[1];
  if (first == "--help" || first == "-h" || first == "help") return PrintUsage(stdout, program);
  if (first == "--version" || first == "version") {
    fmt::print("pitcrew {}\n", PITCREW_VERSION);
    return 0;
  }
  for (const auto& command : kCommands) {
    if (command.run == nullptr) continue;
    const auto words = pitcrew::base::SplitTrimmed(command.name, ' ');
    bool matches = argc > static_cast<int>(words.size());
    for (std::size_t i = 0; matches && i < words.size(); ++i) matches = words[i] == argv[i + 1];
    if (matches) return Run(command, argc, argv, static_cast<int>(words.size()));
    // Where upstream's image has no entry point, arguments of a container begin with the program;
    // here they come behind the image's entry point, which is this program.
    if (HasAlias(command, first)) return Run(command, argc, argv, 1);
  }
  fmt::print(stderr, "pitcrew: there is no command \"{}\"\n\n", first);
  return PrintUsage(stderr, program);
}

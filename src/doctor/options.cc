#include "doctor/options.h"

#include <fmt/format.h>

#include "base/command_line.h"

namespace pitcrew::doctor {
namespace {

base::Error BadUsage(std::string message) { return base::Invalid("BadUsage", std::move(message)); }

base::Result<Format> ReadFormat(const std::string& text, Command command) {
  if (text == "table") return Format::kTable;
  if (text == "wide" && command == Command::kStatus) return Format::kWide;
  if (text == "json") return Format::kJson;
  if (text == "yaml") return Format::kYaml;
  return base::Fail(BadUsage(fmt::format("--output {} is none of table, {}json, yaml", text,
                                         command == Command::kStatus ? "wide, " : "")));
}

constexpr std::string_view kStatusHelp =
    "Shows policy, operands and GPU nodes on one screen: what is not ready first, with the link of "
    "the chain that is broken. Exit status: 0 all ready, 1 the cluster (or too much of it) cannot "
    "be read, 2 wrong "
    "usage, 3 something is not ready.";
constexpr std::string_view kDoctorHelp =
    "Names for each node that is not ready, and each pod that waits for a GPU, the first broken "
    "link, the evidence and the fix. Exit status: 0 nothing is broken, 1 the cluster (or too much "
    "of it) cannot be "
    "read, 2 wrong usage, 3 something is broken.";

}  // namespace

base::Result<std::optional<Options>> ReadOptions(Command command, int argc,
                                                 const char* const* argv) {
  Options options;
  std::optional<std::string> name_space, file, format;
  std::optional<bool> watch, all;
  snapshot::ConnectionFlags connection;
  base::CommandLine line(command == Command::kStatus ? "status" : "doctor",
                         command == Command::kStatus ? kStatusHelp : kDoctorHelp,
                         "pitcrew " PITCREW_VERSION);
  snapshot::AddOperatorNamespace(line, name_space);
  connection.AddTo(line);
  line.Add(
      {"cluster", "", "read objects from this file instead (YAML or JSON; - is standard input)"},
      &file);
  line.Add({"output,o", "",
            command == Command::kStatus ? "table, wide, json or yaml" : "table, json or yaml"},
           &format);
  line.Add({"all", "", "name every node, also of a large fleet"}, &all);
  if (command == Command::kStatus) {
    line.Add({"watch,w", "", "go on, and show every change"}, &watch);
  } else {
    line.AddWords("NODE|NAMESPACE/POD", "what to look at; everything that is not ready otherwise",
                  &options.wanted);
  }
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return std::nullopt;
  options.name_space = name_space.value_or("");
  options.connection = connection.Read();
  options.file = file.value_or("");
  options.watch = watch.value_or(false);
  options.all = all.value_or(false);
  TRY_ASSIGN(options.format, ReadFormat(format.value_or("table"), command));
  if (options.watch && !options.file.empty()) {
    return base::Fail(BadUsage("--watch needs a live cluster: a file does not change"));
  }
  if (options.watch && options.format != Format::kTable && options.format != Format::kWide) {
    return base::Fail(BadUsage("--watch writes tables only"));
  }
  return options;
}

}  // namespace pitcrew::doctor

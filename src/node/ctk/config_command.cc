// nvidia-ctk config and config default (container-toolkit.md 5.5).
#include <fmt/format.h>

#include <cstdlib>

#include "base/command_line.h"
#include "base/log.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/config_document.h"
#include "node/toolkit/options.h"
#include "shim/config.h"
#include "shim/config_members.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::BadUsage;
using toolkit::ConfigDocument;

constexpr const char* kDefaultSeparator = ":";

void WarnOfUnheeded(const ConfigDocument& document, const std::string& path) {
  for (const auto& [member, why] :
       shim::UnheededMembers(document.values(), shim::ToolkitFolderOf(path))) {
    base::LogWarning("A member of config.toml has no effect", {{"member", member}, {"why", why}});
  }
}

}  // namespace

base::Status ShowConfig(const GlobalFlags& global, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk config",
                         "Prints config.toml, with changes if any are asked for", PITCREW_VERSION);
  Text file, output, separator;
  std::vector<std::string> assignments;
  Switch in_place;
  line.Add({"config-file,config,c", "", "the file; by default where the runtime looks for it"},
           &file);
  line.AddEach({"set", "", "KEY or KEY=VALUE; repeatable"}, &assignments);
  line.Add({"set-list-separator", "", "between the items of a list (default :)"}, &separator);
  line.Add({"in-place,i", "", "write to the file it was read from"}, &in_place);
  line.Add({"output,o", "", "file; standard output when empty"}, &output);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  const bool writes_back = in_place.value_or(false);
  if (writes_back && !output.value_or("").empty()) {
    return base::Fail(BadUsage("--in-place and --output exclude each other"));
  }
  if (separator && separator->size() != 1) {
    return base::Fail(BadUsage("--set-list-separator is one character"));
  }
  std::string path = file.value_or(global.config);
  if (path.empty()) path = shim::ConfigPath("").string();
  TRY_ASSIGN(auto document, ConfigDocument::Read(path));
  for (const auto& assignment : assignments) {
    TRY(document.Set(assignment, separator.value_or(kDefaultSeparator).front()));
  }
  WarnOfUnheeded(document, path);
  return WriteResult(document.ToText(), writes_back ? path : output.value_or(""));
}

base::Status ShowDefaultConfig(const GlobalFlags&, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk config default", "Prints the default config.toml",
                         PITCREW_VERSION);
  Text output;
  line.Add({"output,o", "", "file; standard output when empty"}, &output);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  return WriteResult(ConfigDocument::Defaults().ToText(), output.value_or(""));
}

}  // namespace pitcrew::node::ctk

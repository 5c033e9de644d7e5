// nvidia-ctk cdi list and cdi transform root (container-toolkit.md 5.4).
#include <fmt/format.h>

#include <cstdio>

#include "base/command_line.h"
#include "base/file.h"
#include "base/log.h"
#include "cdi/format.h"
#include "cdi/registry.h"
#include "cdi/root_transform.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::BadUsage;

base::Result<cdi::PathsOf> ParsePathsOf(const std::string& text) {
  if (text == "host") return cdi::PathsOf::kHost;
  if (text == "container") return cdi::PathsOf::kContainer;
  return base::Fail(
      BadUsage(fmt::format("--relative-to \"{}\" is neither host nor container", text)));
}

base::Result<std::string> ReadInput(const std::string& input) {
  return base::ReadFile(input == "-" ? "/dev/stdin" : input);
}

}  // namespace

base::Status ListCdi(const GlobalFlags&, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi list", "Prints the names of all CDI devices",
                         PITCREW_VERSION);
  List folders;
  line.Add({"spec-dir", "NVIDIA_CTK_CDI_SPEC_DIRS", "folders of specifications"}, &folders);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  std::vector<std::filesystem::path> searched(std::begin(cdi::kDefaultSpecFolders),
                                              std::end(cdi::kDefaultSpecFolders));
  if (folders) searched.assign(folders->begin(), folders->end());
  const auto registry = cdi::Registry::Load(searched);
  for (const auto& error : registry.errors()) {
    base::LogWarning("A CDI specification is passed over", error);
  }
  for (const auto& name : registry.DeviceNames()) Print(name + "\n");
  return {};
}

base::Status TransformCdiRoot(const GlobalFlags&, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi transform root",
                         "Puts another root in front of the paths of a CDI specification",
                         PITCREW_VERSION);
  Text from, to, input, output, relative_to;
  line.Add({"from", "", "the root that goes"}, &from);
  line.Add({"to", "", "the root in its place"}, &to);
  line.Add({"input", "", "a specification; - for standard input (default)"}, &input);
  line.Add({"output", "", "file; standard output when empty"}, &output);
  line.Add({"relative-to", "", "whose paths change: host (default) or container"}, &relative_to);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  TRY_ASSIGN(const auto paths, ParsePathsOf(relative_to.value_or("host")));
  const std::string name = input.value_or("-");
  TRY_ASSIGN(const std::string text, ReadInput(name));
  TRY_ASSIGN(cdi::Spec spec, cdi::ParseSpec(text, name == "-" ? "standard input" : name));
  cdi::TransformRoot(spec, from.value_or(""), to.value_or(""), paths);
  if (output.value_or("").empty()) {
    Print(cdi::ToYamlText(spec));
    return {};
  }
  return cdi::WriteSpecFile(*output, spec);
}

}  // namespace pitcrew::node::ctk

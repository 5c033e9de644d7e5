// The subcommands of nvidia-ctk (container-toolkit.md 5). Each reads its own flags; argv[0] is its
// name. Results go to standard output, all else to the log. kInvalid "BadUsage" for wrong flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::ctk {

// Flags that may or may not be given.
using Text = std::optional<std::string>;
using Switch = std::optional<bool>;
using List = std::optional<std::vector<std::string>>;

// --config, before the subcommand: where `cdi generate` takes its default of --driver-root from.
struct GlobalFlags {
  std::string config;
};

base::Status GenerateCdi(const GlobalFlags& global, int argc, char** argv);
base::Status ListCdi(const GlobalFlags& global, int argc, char** argv);
base::Status TransformCdiRoot(const GlobalFlags& global, int argc, char** argv);
base::Status ShowInfo(const GlobalFlags& global, int argc, char** argv);
base::Status ConfigureRuntime(const GlobalFlags& global, int argc, char** argv);
base::Status ShowConfig(const GlobalFlags& global, int argc, char** argv);
base::Status ShowDefaultConfig(const GlobalFlags& global, int argc, char** argv);
base::Status CreateDeviceNodes(const GlobalFlags& global, int argc, char** argv);
base::Status CreateDevCharLinks(const GlobalFlags& global, int argc, char** argv);

// A result: to standard output, or where --output says, in one step and with the folders to it. A
// file that is there keeps its mode and owner, and stays a link where it is one.
void Print(const std::string& text);
base::Status WriteResult(const std::string& text, const std::string& output);

}  // namespace pitcrew::node::ctk

// nvidia-ctk cdi generate (container-toolkit.md 5.3).
#include <fmt/format.h>

#include "base/command_line.h"
#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "node/ctk/generate_flags.h"
#include "node/ctk/generate_modes.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::BadUsage;

base::Result<cdi::Spec> Generate(const GlobalFlags& global, const GenerateFlags& flags) {
  const std::string mode = base::ToLower(flags.mode.value_or("auto"));
  TRY_ASSIGN(const auto request, ReadRequest(global, flags));
  if (const auto* device_class = cdi_generate::FindDeviceClass(mode)) {
    return GenerateOfClass(*device_class, request.options);
  }
  if (mode == "imex") return GenerateImex(request.options);
  TRY_ASSIGN(const auto driver_mode, ParseDriverMode(mode));
  return GenerateWithDriver(driver_mode, request);
}

}  // namespace

base::Status GenerateCdi(const GlobalFlags& global, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi generate",
                         "Writes a CDI specification of this node's devices", PITCREW_VERSION);
  GenerateFlags flags;
  AddGenerateFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  std::filesystem::path output = flags.output.value_or("");
  const std::string format =
      base::ToLower(flags.format.value_or(output.extension() == ".json" ? "json" : "yaml"));
  if (format != "yaml" && format != "json") {
    return base::Fail(BadUsage(fmt::format("--format \"{}\" is neither yaml nor json", format)));
  }
  TRY_ASSIGN(const cdi::Spec spec, Generate(global, flags));
  TRY(cdi::Validate(spec));
  if (output.empty()) {
    Print(format == "json" ? cdi::ToJsonText(spec) : cdi::ToYamlText(spec));
    return {};
  }
  if (output.extension() != ".json" && output.extension() != ".yaml") output += "." + format;
  TRY(cdi::WriteSpecFile(output, spec));
  base::LogInfo("Wrote a CDI specification",
                {{"file", output.string()}, {"devices", spec.devices.size()}});
  return {};
}

}  // namespace pitcrew::node::ctk

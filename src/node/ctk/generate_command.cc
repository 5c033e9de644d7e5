// nvidia-ctk cdi generate (container-toolkit.md 5.3).
#include <fmt/format.h>

#include <filesystem>

#include "base/command_line.h"
#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "cdi/generate/coherence.h"
#include "cdi/generate/device_ids.h"
#include "node/ctk/generate_flags.h"
#include "node/ctk/generate_modes.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::BadUsage;

struct Output {
  std::filesystem::path path;  // empty: standard output
  std::string format;          // "yaml" or "json"
  std::string ending;          // of the path as it was given
};

base::Result<Output> ReadOutput(const GenerateFlags& flags) {
  Output output;
  output.path = flags.output.value_or("");
  output.ending = output.path.extension().string();
  const std::string implied = output.ending == ".json"                              ? "json"
                              : output.ending == ".yaml" || output.ending == ".yml" ? "yaml"
                                                                                    : "";
  output.format = base::ToLower(flags.format.value_or(implied.empty() ? "yaml" : implied));
  if (output.format != "yaml" && output.format != "json") {
    return base::Fail(
        BadUsage(fmt::format("--format \"{}\" is neither yaml nor json", output.format)));
  }
  if (!implied.empty() && implied != output.format) {
    base::LogWarning("The ending of --output says another format than --format, and counts",
                     {{"file", output.path.string()}, {"format", output.format}});
  }
  return output;
}

base::Result<cdi::Spec> Generate(const std::string& mode, const GenerateRequest& request) {
  if (const auto* device_class = cdi_generate::FindDeviceClass(mode)) {
    return GenerateOfClass(*device_class, request.options);
  }
  if (mode == "imex") return GenerateImex(request.options);
  TRY_ASSIGN(const auto driver_mode, ParseDriverMode(mode));
  return GenerateWithDriver(driver_mode, request);
}

// `suffix` stands before the ending of the file.
base::Status Write(const cdi::Spec& spec, const std::string& suffix, const Output& output) {
  TRY(cdi::Validate(spec));
  if (output.path.empty()) {
    Print(output.format == "json" ? cdi::ToJsonText(spec) : cdi::ToYamlText(spec));
    return {};
  }
  auto path = output.path;
  if (!suffix.empty()) path.replace_extension().concat(suffix).concat(output.ending);
  if (output.ending != ".json" && output.ending != ".yaml") path += "." + output.format;
  TRY(cdi::WriteSpecFile(path, spec));
  base::LogInfo("Wrote a CDI specification",
                {{"file", path.string()}, {"devices", spec.devices.size()}});
  return {};
}

}  // namespace

base::Status GenerateCdi(const GlobalFlags& global, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi generate",
                         "Writes a CDI specification of this node's devices", PITCREW_VERSION);
  GenerateFlags flags;
  AddGenerateFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  TRY_ASSIGN(const auto output, ReadOutput(flags));
  TRY_ASSIGN(const auto request, ReadRequest(global, flags));
  TRY_ASSIGN(cdi::Spec spec, Generate(base::ToLower(flags.mode.value_or("auto")), request));
  const bool merged =
      request.options.merged_device && !cdi_generate::MeansNoDevice(request.options.ids);
  const auto parts = cdi_generate::SplitByCoherence(spec, merged);
  TRY(Write(spec, "", output));
  for (const auto& part : parts) TRY(Write(part.spec, part.suffix, output));
  return {};
}

}  // namespace pitcrew::node::ctk

#include "node/driver_container/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::driver_container {
namespace {

constexpr std::array kModules = {"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-peermem"};
// Earlier modules do not know this parameter, and would not be loaded with it.
constexpr unsigned kFirstWithCoherentMemory = 580;
constexpr const char* kCoherentMemory = "NVreg_CoherentGPUMemoryMode=driver";
constexpr const char* kNoFirmware = "NVreg_EnableGpuFirmware=0";

}  // namespace

std::vector<std::string> ParseParameters(std::string_view text) {
  auto lines = base::SplitTrimmed(text, '\n');
  std::erase_if(lines, [](const std::string& line) { return line.front() == '#'; });
  return lines;
}

base::Result<ModuleParameters> ReadModuleParameters(const std::filesystem::path& drivers,
                                                    unsigned branch) {
  ModuleParameters parameters;
  if (branch >= kFirstWithCoherentMemory) parameters.of_module["nvidia"] = {kCoherentMemory};
  for (const char* module : kModules) {
    const auto text = base::ReadFile(drivers / fmt::format("{}.conf", module));
    if (!text && text.error().code == base::Code::kNotFound) continue;
    if (!text) return base::Fail(text.error());
    const auto lines = ParseParameters(*text);
    if (lines.empty()) continue;
    auto& all = parameters.of_module[module];
    all.insert(all.end(), lines.begin(), lines.end());
  }
  const auto nvidia = parameters.of_module.find("nvidia");
  parameters.uses_firmware = nvidia == parameters.of_module.end() ||
                             std::ranges::find(nvidia->second, kNoFirmware) == nvidia->second.end();
  return parameters;
}

base::Status WriteModuleParameters(const ModuleParameters& parameters,
                                   const std::filesystem::path& root) {
  for (const auto& [module, lines] : parameters.of_module) {
    TRY(base::WriteFileAtomically(root / "etc/modprobe.d" / fmt::format("{}.conf", module),
                                  fmt::format("options {} {}\n", module, base::Join(lines, " "))));
  }
  return {};
}

}  // namespace pitcrew::node::driver_container

#include "host/platform.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "host/driver_root.h"
#include "host/dxcore.h"
#include "host/tegra.h"

namespace pitcrew::host {
namespace {

base::Error NoTegra(std::string_view evidence) {
  return {base::Code::kUnsupported, "TegraNotSupported",
          fmt::format("this is a Tegra system ({}), which Pitcrew does not support: use NVIDIA's "
                      "device plugin and feature discovery on this node",
                      evidence)};
}

std::string TegraEvidence(const Root& root) {
  constexpr std::string_view kFamily = "/sys/devices/soc0/family";
  if (const auto release = root.Resolve(kTegraRelease);
      release && !IsDirectory(*release).value_or(true))
    return std::string(kTegraRelease);
  const auto family = base::ReadFile(root.At(kFamily));
  if (family && base::ToLower(*family).starts_with("tegra")) return std::string(kFamily);
  return "";
}

}  // namespace

Platform FindPlatform(const Root& driver_root, std::span<const std::string> gpu_names) {
  if (FindDxCore(driver_root)) return Platform::kWsl;
  if (std::ranges::any_of(gpu_names, IsIntegratedGpuName)) return Platform::kTegra;
  if (!TegraEvidence(driver_root).empty() && !FindLibrary(driver_root, kNvmlLibrary)) {
    return Platform::kTegra;
  }
  return Platform::kGpus;
}

bool IsIntegratedGpuName(std::string_view gpu_name) {
  return gpu_name.find("(nvgpu)") != std::string_view::npos ||
         gpu_name.find("NVIDIA Thor") != std::string_view::npos;
}

base::Status RefuseUnsupportedPlatform(const Root& driver_root) {
  if (FindDxCore(driver_root)) {
    return base::Fail(
        {base::Code::kUnsupported, "WslNotSupported",
         fmt::format("this node runs under WSL ({} is in {}), which Pitcrew does not support: use "
                     "NVIDIA's device plugin and feature discovery on this node",
                     kDxCoreLibrary, driver_root.path().string())});
  }
  const auto evidence = TegraEvidence(driver_root);
  if (!evidence.empty() && !FindLibrary(driver_root, kNvmlLibrary)) {
    return base::Fail(NoTegra(evidence + " says so"));
  }
  return {};
}

base::Status RefuseIntegratedGpu(std::string_view gpu_name) {
  if (!IsIntegratedGpuName(gpu_name)) return {};
  return base::Fail(NoTegra(fmt::format("its GPU is {}", gpu_name)));
}

}  // namespace pitcrew::host

#include "host/platform.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "host/driver_root.h"

namespace pitcrew::host {
namespace {

base::Error NoTegra(std::string_view evidence) {
  return {base::Code::kUnsupported, "TegraNotSupported",
          fmt::format("this is a Tegra system ({}), which Pitcrew does not support: use NVIDIA's "
                      "device plugin and feature discovery on this node",
                      evidence)};
}

std::string TegraEvidence(const Root& root) {
  constexpr std::string_view kRelease = "/etc/nv_tegra_release";
  constexpr std::string_view kFamily = "/sys/devices/soc0/family";
  if (const auto release = root.Resolve(kRelease); release && !IsDirectory(*release).value_or(true))
    return std::string(kRelease);
  const auto family = base::ReadFile(root.At(kFamily));
  if (family && base::ToLower(*family).starts_with("tegra")) return std::string(kFamily);
  return "";
}

}  // namespace

base::Status RefuseUnsupportedPlatform(const Root& driver_root) {
  constexpr std::string_view kDxCore = "libdxcore.so";
  constexpr std::string_view kWslDxCore = "/usr/lib/wsl/lib/libdxcore.so";
  if (FindLibrary(driver_root, kDxCore) || driver_root.Resolve(kWslDxCore)) {
    return base::Fail(
        {base::Code::kUnsupported, "WslNotSupported",
         fmt::format("this node runs under WSL ({} is in {}), which Pitcrew does not support: use "
                     "NVIDIA's device plugin and feature discovery on this node",
                     kDxCore, driver_root.path().string())});
  }
  const auto evidence = TegraEvidence(driver_root);
  if (!evidence.empty() && !FindLibrary(driver_root, kNvmlLibrary)) {
    return base::Fail(NoTegra(evidence + " says so"));
  }
  return {};
}

base::Status RefuseIntegratedGpu(std::string_view gpu_name) {
  if (gpu_name.find("(nvgpu)") == std::string_view::npos &&
      gpu_name.find("NVIDIA Thor") == std::string_view::npos) {
    return {};
  }
  return base::Fail(NoTegra(fmt::format("its GPU is {}", gpu_name)));
}

}  // namespace pitcrew::host

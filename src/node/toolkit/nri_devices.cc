#include "node/toolkit/nri_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"
#include "cdi/name.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr std::string_view kAnnotation = "nvidia.cdi.k8s.io";

// The three numbers of "v1.7.30-k3s1"; missing ones are 0. Nothing where it begins with none.
using Version = std::array<int, 3>;
std::optional<Version> ParseVersion(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  Version version{};
  for (std::size_t i = 0; i < version.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version[i]);
    if (error != std::errc()) {
      if (i == 0) return std::nullopt;
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
  }
  return version;
}

const std::string* FindRequest(const nri::Container& container) {
  const auto& annotations = container.pod_annotations;
  for (const auto& key : {fmt::format("{}/container.{}", kAnnotation, container.name),
                          fmt::format("{}/pod", kAnnotation), std::string(kAnnotation)}) {
    if (const auto found = annotations.find(key); found != annotations.end()) return &found->second;
  }
  return nullptr;
}

bool IsServed(const std::string& pod_namespace, const NriOptions& options) {
  return pod_namespace == options.operator_namespace ||
         std::ranges::find(options.more_namespaces, pod_namespace) != options.more_namespaces.end();
}

}  // namespace

NriDevices ChooseNriDevices(const nri::Container& container, const NriOptions& options) {
  NriDevices devices;
  const auto* request = FindRequest(container);
  if (request == nullptr) return devices;
  for (const auto& part : base::Split(*request, ',')) {
    std::string name(base::Trim(part));
    if (name.empty() || std::ranges::find(devices.names, name) != devices.names.end()) continue;
    if (const auto parsed = cdi::ParseQualifiedName(name); !parsed) {
      devices.refused.push_back({std::move(name), parsed.error().message});
    } else if (!IsServed(container.pod_namespace, options)) {
      devices.refused.push_back(
          {std::move(name),
           fmt::format("pods of namespace {} get no devices by annotation; the operator's "
                       "namespace does, and NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES names others",
                       container.pod_namespace)});
    } else {
      devices.names.push_back(std::move(name));
    }
  }
  return devices;
}

std::optional<std::string> WhyNriCannotServe(const nri::Runtime& runtime) {
  const auto version = ParseVersion(runtime.version);
  if (!version) return std::nullopt;
  const bool containerd = runtime.name == "containerd";
  if (containerd && (*version < Version{1, 7, 30} ||
                     (*version >= Version{2, 0, 0} && *version < Version{2, 1, 0}))) {
    return fmt::format(
        "containerd {} drops CDI devices of NRI plugins without a word; 1.7.30 and 2.1 do not. "
        "Update it, or set cdi.nriPluginEnabled to false",
        runtime.version);
  }
  if (runtime.name == "cri-o" && *version < Version{1, 34, 0}) {
    return fmt::format(
        "CRI-O {} drops CDI devices of NRI plugins; 1.34 does not. Update it, or set "
        "cdi.nriPluginEnabled to false",
        runtime.version);
  }
  return std::nullopt;
}

bool NeedsCdiSwitchedOn(const nri::Runtime& runtime) {
  const auto version = ParseVersion(runtime.version);
  return runtime.name == "containerd" && version && *version < Version{2, 0, 0};
}

}  // namespace pitcrew::node::toolkit

#include "shim/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/strings.h"
#include "cdi/driver_annotations.h"
#include "cdi/name.h"

namespace pitcrew::shim {
namespace {

constexpr std::string_view kMountFolder = "/var/run/nvidia-container-devices/";

std::vector<std::string> FromAnnotations(const oci::Spec& spec,
                                         const std::vector<std::string>& prefixes) {
  std::vector<std::string> devices;
  for (const auto& [key, value] : spec.annotations()) {
    const bool wanted = std::ranges::any_of(
        prefixes, [&](const std::string& prefix) { return key.starts_with(prefix); });
    if (!wanted) continue;
    for (auto& device : base::Split(value, ',')) devices.push_back(std::move(device));
  }
  return devices;
}

// "cdi/<vendor>/<class>/<name>" or "cdi/<vendor>/<class>=<name>" to a qualified name.
std::optional<std::string> NameOfMount(std::string_view rest) {
  const auto vendor_end = rest.find('/');
  if (vendor_end == std::string_view::npos) return std::nullopt;
  const auto class_end = rest.find_first_of("/=", vendor_end + 1);
  if (class_end == std::string_view::npos) return std::nullopt;
  std::string name(rest);
  name[class_end] = '=';
  if (!cdi::IsQualifiedName(name)) return std::nullopt;
  return name;
}

std::vector<std::string> FromMounts(const oci::Spec& spec, std::vector<std::string>& warnings) {
  std::vector<std::string> devices;
  for (const auto& mount : spec.mounts()) {
    if (mount.source != "/dev/null" || !mount.destination.starts_with(kMountFolder)) continue;
    const std::string_view rest = std::string_view(mount.destination).substr(kMountFolder.size());
    if (rest.empty() || rest.starts_with("imex/")) continue;
    if (!rest.starts_with("cdi/")) {
      devices.emplace_back(rest);
    } else if (auto name = NameOfMount(rest.substr(4))) {
      devices.push_back(*std::move(name));
    } else {
      warnings.push_back(fmt::format("the mount {} names no CDI device", mount.destination));
    }
  }
  return devices;
}

std::vector<std::string> FromEnv(const oci::Spec& spec, const Config& config) {
  std::vector<std::string> values;
  for (const auto& name : config.swarm_resources) {
    if (auto value = spec.FindEnv(name)) values.push_back(*std::move(value));
  }
  if (!values.empty()) return RequestedValues(values);
  if (const auto value = spec.FindEnv("NVIDIA_VISIBLE_DEVICES")) return RequestedValues({*value});
  // Images from before NVIDIA_VISIBLE_DEVICES existed say only which CUDA they carry.
  const bool is_old_image = !spec.FindEnv("CUDA_VERSION").value_or("").empty() &&
                            spec.FindEnv("NVIDIA_REQUIRE_CUDA").value_or("").empty();
  return is_old_image ? std::vector<std::string>{"all"} : std::vector<std::string>{};
}

bool AllQualified(const std::vector<std::string>& devices) {
  return std::ranges::all_of(
      devices, [](const std::string& device) { return cdi::IsQualifiedName(device); });
}

base::Result<Mode> ResolveMode(std::string_view mode, const Requests& requests) {
  if (mode == "cdi") return Mode::kCdi;
  if (mode == "legacy") return Mode::kLegacy;
  if (mode == "jit-cdi") return Mode::kPrepared;
  // What the lists of a Tegra system name the toolkit has prepared, too.
  if (mode == "csv") return Mode::kCsv;
  if (mode == "auto") {
    return !requests.devices.empty() && AllQualified(requests.devices) ? Mode::kCdi
                                                                       : Mode::kPrepared;
  }
  return base::Fail(base::Invalid(
      "InvalidRuntimeMode",
      fmt::format("runtime mode \"{}\" is none of auto, cdi, csv, jit-cdi, legacy", mode)));
}

// The first of "all" and "none" is all that counts, as upstream (pkg/nvcdi/lib-nvml.go).
void KeepOnlyAllOrNone(std::vector<std::string>& names) {
  const auto found = std::ranges::find_if(names, [](const std::string& name) {
    return name == kNoPreparedDevice || name == fmt::format("{}=all", cdi::kRuntimeKind);
  });
  if (found != names.end()) names = {*found};
}

base::Status RefuseMixedKinds(const std::vector<std::string>& names) {
  if (std::ranges::none_of(names, IsPrepared) || std::ranges::all_of(names, IsPrepared)) return {};
  return base::Fail(base::Invalid(
      "MixedDeviceKinds",
      fmt::format("devices of the kind {} cannot be asked for together with others: {}",
                  cdi::kRuntimeKind, cdi::SomeNames(names))));
}

}  // namespace

// A repeated id counts once (container-toolkit.md 13 row 1).
std::vector<std::string> RequestedValues(const std::vector<std::string>& values) {
  std::vector<std::string> devices;
  std::unordered_set<std::string> seen;  // a pod can name a hundred thousand
  for (const auto& value : values) {
    for (auto& device : base::SplitTrimmed(value, ',')) {
      if (seen.insert(device).second) devices.push_back(std::move(device));
    }
  }
  if (seen.contains("void")) return {};
  for (const auto& device : devices) {
    if (device == "all") return {"all"};
    if (device == "none") return {""};
  }
  return devices;
}

Requests FindRequests(const oci::Spec& spec, const Config& config,
                      const std::vector<std::string>& prefixes) {
  Requests requests;
  requests.devices = FromAnnotations(spec, prefixes);
  if (!requests.devices.empty()) return requests;
  if (config.accept_devices_as_mounts) {
    requests.devices = FromMounts(spec, requests.warnings);
    if (!requests.devices.empty()) return requests;
  }
  auto devices = FromEnv(spec, config);
  if (devices.empty()) return requests;
  if (!config.accept_env_when_unprivileged && !spec.HasBoundingCapability("CAP_SYS_ADMIN")) {
    requests.warnings.emplace_back(
        "NVIDIA_VISIBLE_DEVICES is passed over: the container is not privileged and "
        "accept-nvidia-visible-devices-envvar-when-unprivileged is false");
    return requests;
  }
  requests.devices = std::move(devices);
  return requests;
}

bool IsPrepared(std::string_view name) {
  return name.starts_with(cdi::kRuntimeKind) &&
         name.substr(cdi::kRuntimeKind.size()).starts_with('=');
}

std::vector<std::string> QualifiedNames(const std::vector<std::string>& devices,
                                        std::string_view default_kind) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const auto& device : devices) {
    std::string name = cdi::IsQualifiedName(device)
                           ? device
                           : fmt::format("{}={}", default_kind, device.empty() ? "none" : device);
    if (seen.insert(name).second) names.push_back(std::move(name));
  }
  return names;
}

base::Result<Resolution> ResolveRequests(const oci::Spec& spec, const Config& config,
                                         std::string_view forced_mode) {
  Requests requests = FindRequests(spec, config, config.annotation_prefixes);
  Resolution resolution;
  TRY_ASSIGN(resolution.mode,
             ResolveMode(forced_mode.empty() ? config.mode : forced_mode, requests));
  if (resolution.mode != Mode::kCdi) requests = FindRequests(spec, config, {});
  resolution.names_a_kind = std::ranges::any_of(
      requests.devices, [](const std::string& device) { return cdi::IsQualifiedName(device); });
  resolution.names = QualifiedNames(
      requests.devices, resolution.mode == Mode::kCdi ? config.default_kind : cdi::kRuntimeKind);
  TRY(RefuseMixedKinds(resolution.names));
  if (!resolution.names.empty() && IsPrepared(resolution.names.front())) {
    if (resolution.mode == Mode::kCdi) resolution.mode = Mode::kPrepared;
    KeepOnlyAllOrNone(resolution.names);
  }
  resolution.warnings = std::move(requests.warnings);
  return resolution;
}

}  // namespace pitcrew::shim

#include "api/plugin_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "api/labels.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/strings.h"
#include "codec/config_reader.h"

namespace pitcrew::api {
namespace {

using base::Result;
using base::Status;
using codec::ConfigReader;
using codec::Json;

constexpr std::chrono::nanoseconds kInfinite = std::chrono::nanoseconds::max();

template <class T>
void Fill(std::optional<T>& value, const std::optional<T>& lower) {
  if (!value) value = lower;
}

// A number is nanoseconds, a text a Go duration.
Status ReadDuration(const ConfigReader& object, std::string_view name,
                    std::optional<std::chrono::nanoseconds>& target) {
  const Json* value = object.Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) {
    auto parsed = ParseSleepInterval(value->get<std::string>());
    if (!parsed) return object.Wrong(name, parsed.error().message);
    target = *parsed;
    return {};
  }
  if (!value->is_number()) return object.Wrong(name, "must be a duration such as \"60s\"");
  target = std::chrono::nanoseconds(static_cast<std::int64_t>(value->get<double>()));
  return {};
}

// One text is one strategy: it is not split at commas (device-plugin.md section 4).
Status ReadStrategies(const ConfigReader& object, std::optional<std::vector<std::string>>& target) {
  const Json* value = object.Find("deviceListStrategy");
  if (value == nullptr) return {};
  if (value->is_string()) {
    target = {value->get<std::string>()};
    return {};
  }
  if (!value->is_array()) {
    return object.Wrong("deviceListStrategy", "must be a text or a list of texts");
  }
  std::vector<std::string> strategies;
  for (const auto& entry : *value) {
    if (!entry.is_string()) return object.Wrong("deviceListStrategy", "must hold texts only");
    strategies.push_back(entry.get<std::string>());
  }
  target = std::move(strategies);
  return {};
}

Status ReadFlags(const ConfigReader& object, PluginFlags& flags) {
  TRY(object.Read("migStrategy", flags.mig_strategy));
  TRY(object.Read("failOnInitError", flags.fail_on_init_error));
  TRY(object.Read("mpsRoot", flags.mps_root));
  TRY(object.Read("nvidiaDriverRoot", flags.driver_root));
  TRY(object.Read("nvidiaDevRoot", flags.dev_root));
  TRY(object.Read("gdrcopyEnabled", flags.gdrcopy_enabled));
  TRY(object.Read("gdsEnabled", flags.gds_enabled));
  TRY(object.Read("mofedEnabled", flags.mofed_enabled));
  TRY(object.Read("useNodeFeatureAPI", flags.use_node_feature_api));
  TRY(object.Read("deviceDiscoveryStrategy", flags.device_discovery_strategy));

  TRY_ASSIGN(const auto plugin, object.Object("plugin"));
  TRY(plugin.Read("passDeviceSpecs", flags.pass_device_specs));
  TRY(ReadStrategies(plugin, flags.device_list_strategy));
  TRY(plugin.Read("deviceIDStrategy", flags.device_id_strategy));
  TRY(plugin.Read("cdiAnnotationPrefix", flags.cdi_annotation_prefix));
  TRY(plugin.Read("nvidiaCTKPath", flags.cdi_hook_path));
  TRY(plugin.Read("containerDriverRoot", flags.driver_root_in_here));
  TRY(plugin.Read("sharedDevicesAllocationPolicy", flags.shared_devices_allocation_policy));

  TRY_ASSIGN(const auto gfd, object.Object("gfd"));
  TRY(gfd.Read("oneshot", flags.oneshot));
  TRY(gfd.Read("noTimestamp", flags.no_timestamp));
  TRY(ReadDuration(gfd, "sleepInterval", flags.sleep_interval));
  TRY(gfd.Read("outputFile", flags.output_file));
  return gfd.Read("machineTypeFile", flags.machine_type_file);
}

// Names and patterns are checked and then left aside, as upstream does (device-plugin.md 4.1).
Status CheckResources(const ConfigReader& resources, PluginConfig& config) {
  for (const std::string_view kind : {"gpus", "mig"}) {
    TRY_ASSIGN(const auto entries, resources.List(kind));
    for (const auto& entry : entries) {
      TRY(entry.RequiredText("pattern"));
      TRY_ASSIGN(const auto name, entry.RequiredText("name"));
      if (const auto checked = QualifyResourceName(name); !checked) {
        return entry.Wrong("name", checked.error().message);
      }
    }
    if (!entries.empty()) {
      config.warnings.push_back(fmt::format(
          "resources.{} is ignored: resource names follow from the MIG strategy", kind));
    }
  }
  return {};
}

Status CheckDevices(const ConfigReader& resource, bool& chosen) {
  if (!resource.Has("devices")) return {};
  const Json* value = resource.Find("devices");
  const auto wrong = [&] {
    return resource.Wrong("devices",
                          "must be \"all\", a positive number, or a list of GPU or MIG indices and "
                          "UUIDs");
  };
  chosen = true;
  if (value == nullptr) return wrong();
  if (value->is_string()) {
    if (*value != "all") return wrong();
    chosen = false;
    return {};
  }
  if (value->is_number_integer()) return value->get<std::int64_t>() > 0 ? Status() : wrong();
  if (!value->is_array()) return wrong();
  for (const auto& entry : *value) {
    if (entry.is_number_integer() && entry.get<std::int64_t>() >= 0) continue;
    if (!entry.is_string() || !ClassifyDeviceReference(entry.get<std::string>())) return wrong();
  }
  return {};
}

Result<int> ReadReplicas(const ConfigReader& resource) {
  const Json* value = resource.Find("replicas");
  if (value == nullptr) return resource.Wrong("replicas", "is required");
  const double number = value->is_number() ? value->get<double>() : 0;
  if (number < 2 || number != std::floor(number) || number > 1e6) {
    return resource.Wrong("replicas", "must be a whole number of at least 2");
  }
  return static_cast<int>(number);
}

Result<ReplicatedResource> ReadReplicated(const ConfigReader& entry, bool rename_by_default,
                                          PluginConfig& config) {
  ReplicatedResource resource;
  TRY_ASSIGN(const auto name, entry.RequiredText("name"));
  auto qualified = QualifyResourceName(name);
  if (!qualified) return entry.Wrong("name", qualified.error().message);
  resource.name = *std::move(qualified);
  TRY_ASSIGN(resource.replicas, ReadReplicas(entry));
  if (rename_by_default) resource.rename = resource.name + ".shared";

  std::optional<std::string> rename;
  TRY(entry.Read("rename", rename));
  if (rename && !rename->empty()) {
    const auto wanted = QualifyResourceName(*rename);
    if (!wanted) return entry.Wrong("rename", wanted.error().message);
    if (*wanted != resource.rename) {
      config.warnings.push_back(
          fmt::format("{} is ignored: choose renameByDefault instead", entry.PathOf("rename")));
    }
  }
  bool chosen = false;
  TRY(CheckDevices(entry, chosen));
  if (chosen) {
    config.warnings.push_back(
        fmt::format("{} is ignored: all devices are shared", entry.PathOf("devices")));
  }
  return resource;
}

// `fail_by_default` is what an unset failRequestsGreaterThanOne means.
Result<ReplicatedResources> ReadSharing(const ConfigReader& object, bool fail_by_default,
                                        PluginConfig& config) {
  ReplicatedResources shared;
  std::optional<bool> rename;
  std::optional<bool> fail;
  TRY(object.Read("renameByDefault", rename));
  TRY(object.Read("failRequestsGreaterThanOne", fail));
  shared.rename_by_default = rename.value_or(false);
  shared.fail_requests_greater_than_one = fail.value_or(fail_by_default);
  TRY_ASSIGN(const auto entries, object.List("resources"));
  if (entries.empty()) {
    return object.Wrong("resources", "must name at least one resource");
  }
  for (const auto& entry : entries) {
    TRY_ASSIGN(auto resource, ReadReplicated(entry, shared.rename_by_default, config));
    const auto same = std::ranges::find(shared.resources, resource.name, &ReplicatedResource::name);
    if (same == shared.resources.end()) {
      shared.resources.push_back(std::move(resource));
      continue;
    }
    // A device has one set of replicas: upstream's, too, are then those of the larger number.
    same->replicas = std::max(same->replicas, resource.replicas);
    config.warnings.push_back(
        fmt::format("{} is shared twice: the larger number of replicas, {}, counts", resource.name,
                    same->replicas));
  }
  return shared;
}

Status ReadImex(const ConfigReader& imex, PluginFlags& flags) {
  TRY(imex.Read("required", flags.imex_required));
  const Json* ids = imex.Find("channelIDs");
  if (ids == nullptr) return {};
  // Which numbers there may be is the device plugin's question; feature discovery reads the same
  // file.
  if (!ids->is_array() || !std::ranges::all_of(*ids, &Json::is_number_integer)) {
    return imex.Wrong("channelIDs", "must be a list of whole numbers, [] or [0]");
  }
  flags.imex_channel_ids = ids->get<std::vector<std::int64_t>>();
  return {};
}

}  // namespace

void PluginFlags::FillFrom(const PluginFlags& lower) {
  Fill(mig_strategy, lower.mig_strategy);
  Fill(fail_on_init_error, lower.fail_on_init_error);
  Fill(mps_root, lower.mps_root);
  Fill(driver_root, lower.driver_root);
  Fill(dev_root, lower.dev_root);
  Fill(gdrcopy_enabled, lower.gdrcopy_enabled);
  Fill(gds_enabled, lower.gds_enabled);
  Fill(mofed_enabled, lower.mofed_enabled);
  Fill(use_node_feature_api, lower.use_node_feature_api);
  Fill(device_discovery_strategy, lower.device_discovery_strategy);
  Fill(pass_device_specs, lower.pass_device_specs);
  Fill(device_list_strategy, lower.device_list_strategy);
  Fill(device_id_strategy, lower.device_id_strategy);
  Fill(cdi_annotation_prefix, lower.cdi_annotation_prefix);
  Fill(cdi_hook_path, lower.cdi_hook_path);
  Fill(driver_root_in_here, lower.driver_root_in_here);
  Fill(shared_devices_allocation_policy, lower.shared_devices_allocation_policy);
  Fill(oneshot, lower.oneshot);
  Fill(no_timestamp, lower.no_timestamp);
  Fill(sleep_interval, lower.sleep_interval);
  Fill(output_file, lower.output_file);
  Fill(machine_type_file, lower.machine_type_file);
  Fill(imex_channel_ids, lower.imex_channel_ids);
  Fill(imex_required, lower.imex_required);
}

const ReplicatedResource* ReplicatedResources::Find(std::string_view resource) const {
  const auto found = std::ranges::find(resources, resource, &ReplicatedResource::name);
  return found == resources.end() ? nullptr : &*found;
}

std::string_view ToString(SharingStrategy strategy) {
  switch (strategy) {
    case SharingStrategy::kTimeSlicing:
      return "time-slicing";
    case SharingStrategy::kMps:
      return "mps";
    case SharingStrategy::kNone:
      break;
  }
  return "none";
}

SharingStrategy Sharing::strategy() const {
  if (mps) return SharingStrategy::kMps;
  return time_slicing ? SharingStrategy::kTimeSlicing : SharingStrategy::kNone;
}

const ReplicatedResources* Sharing::replicated() const {
  if (mps) return &*mps;
  return time_slicing ? &*time_slicing : nullptr;
}

Result<PluginConfig> ParsePluginConfig(std::string_view text, std::string_view source) {
  PluginConfig config;
  TRY_ASSIGN(const auto document, codec::ConfigDocument::Parse(text, source));
  if (document.empty()) return config;
  TRY_ASSIGN(const auto root, document.Root());
  std::optional<std::string> version;
  TRY(root.Read("version", version));
  if (version && !version->empty() && *version != "v1") {
    return root.Wrong("version", fmt::format("is \"{}\"; only v1 is known", *version));
  }
  TRY_ASSIGN(const auto flags, root.Object("flags"));
  TRY(ReadFlags(flags, config.flags));
  TRY_ASSIGN(const auto resources, root.Object("resources"));
  TRY(CheckResources(resources, config));
  TRY_ASSIGN(const auto sharing, root.Object("sharing"));
  if (sharing.Has("timeSlicing")) {
    TRY_ASSIGN(const auto object, sharing.RequiredObject("timeSlicing"));
    TRY_ASSIGN(config.sharing.time_slicing, ReadSharing(object, false, config));
  }
  if (sharing.Find("mps") != nullptr) {
    TRY_ASSIGN(const auto object, sharing.RequiredObject("mps"));
    TRY_ASSIGN(config.sharing.mps, ReadSharing(object, true, config));
  }
  TRY_ASSIGN(const auto imex, root.Object("imex"));
  TRY(ReadImex(imex, config.flags));
  return config;
}

Result<PluginConfig> ReadPluginConfig(const std::filesystem::path& file) {
  if (file.empty()) return PluginConfig();
  TRY_ASSIGN(const auto text, base::ReadFile(file));
  return ParsePluginConfig(text, file.string());
}

Result<std::chrono::nanoseconds> ParseSleepInterval(std::string_view text) {
  if (text == "infinite") return kInfinite;
  return base::ParseGoDuration(text);
}

Result<std::string> QualifyResourceName(std::string_view name) {
  std::string full(name);
  if (!full.starts_with(kResourcePrefix)) full.insert(0, kResourcePrefix);
  const auto wrong = [&](std::string_view why) {
    return base::Fail(
        base::Invalid("BadResourceName", fmt::format("\"{}\" is no resource name: {}", name, why)));
  };
  if (full.size() > 63) return wrong("it is longer than 63 characters");
  // RFC 1123: labels of lower-case letters, digits and inner dashes, joined by dots.
  for (const auto& label : base::Split(full.substr(full.find('/') + 1), '.')) {
    const bool letters = std::ranges::all_of(
        label, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
    if (label.empty() || !letters || label.starts_with('-') || label.ends_with('-')) {
      return wrong("the part after the slash must be a DNS name");
    }
  }
  return full;
}

}  // namespace pitcrew::api

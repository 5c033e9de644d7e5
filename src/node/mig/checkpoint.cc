#include "node/mig/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/strings.h"
#include "codec/json.h"
#include "gpu/mig_profile.h"

namespace pitcrew::node::mig {
namespace {

using codec::Json;

// A value of the file with its path: MigState.Devices[0].UUID.
struct CheckpointValue {
  const Json& json;
  std::string path;

  [[nodiscard]] std::unexpected<base::Error> Wrong(std::string_view what) const {
    return base::Fail(base::Invalid("InvalidCheckpoint", fmt::format("{} {}", path, what)));
  }
  // A null of the same path when it is missing.
  [[nodiscard]] CheckpointValue Member(const char* name) const {
    static const Json kNull;
    const auto* found = codec::Find(json, {name});
    return {found == nullptr ? kNull : *found, path.empty() ? name : path + "." + name};
  }
  [[nodiscard]] base::Result<unsigned> Number(unsigned below) const {
    if (!json.is_number_integer() || json < 0 || json >= below) {
      return Wrong(fmt::format("must be a whole number below {}", below));
    }
    return json.get<unsigned>();
  }
  // Null is an empty list.
  [[nodiscard]] base::Result<std::vector<CheckpointValue>> Elements() const {
    std::vector<CheckpointValue> elements;
    if (json.is_null()) return elements;
    if (!json.is_array()) return Wrong("must be a list");
    for (std::size_t i = 0; i < json.size(); ++i) {
      elements.push_back({json[i], fmt::format("{}[{}]", path, i)});
    }
    return elements;
  }
};

// More memory slices than any GPU has.
constexpr unsigned kMostSlices = 1024;

base::Result<GpuInstance> ReadInstance(const CheckpointValue& value) {
  GpuInstance instance;
  TRY_ASSIGN(instance.profile, value.Member("ProfileID").Number(gpu::kGpuInstanceProfileCount));
  const CheckpointValue placement = value.Member("Placement");
  gpu::MigPlacement place;
  TRY_ASSIGN(place.start, placement.Member("Start").Number(kMostSlices));
  TRY_ASSIGN(place.size, placement.Member("Size").Number(kMostSlices));
  instance.placement = place;
  TRY_ASSIGN(const auto compute, value.Member("ComputeInstances").Elements());
  for (const auto& element : compute) {
    ComputeInstance one;
    TRY_ASSIGN(one.profile, element.Member("ProfileID").Number(gpu::kComputeInstanceProfileCount));
    // Only the shared engines exist so far.
    TRY(element.Member("EngProfileID").Number(1));
    instance.compute.push_back(one);
  }
  return instance;
}

base::Result<CheckpointDevice> ReadDevice(const CheckpointValue& value) {
  CheckpointDevice device;
  const CheckpointValue uuid = value.Member("UUID");
  if (!uuid.json.is_string() || uuid.json.get<std::string>().empty()) {
    return uuid.Wrong("must be the UUID of a GPU");
  }
  device.uuid = uuid.json.get<std::string>();
  TRY_ASSIGN(const unsigned mode, value.Member("MigMode").Number(2));
  device.layout.mig_enabled = mode == 1;
  const CheckpointValue list = value.Member("GpuInstances");
  TRY_ASSIGN(const auto instances, list.Elements());
  if (!device.layout.mig_enabled && !instances.empty()) {
    return list.Wrong("must be empty where MigMode is 0");
  }
  for (const auto& element : instances) {
    TRY_ASSIGN(auto instance, ReadInstance(element));
    device.layout.instances.push_back(std::move(instance));
  }
  return device;
}

base::Result<Checkpoint> ReadCheckpoint(const CheckpointValue& document) {
  if (!document.json.is_object()) return document.Wrong("must be an object");
  const CheckpointValue version = document.Member("Version");
  if (version.json != "v1") return version.Wrong("must be \"v1\"; other versions are not known");
  Checkpoint checkpoint;
  const CheckpointValue list = document.Member("MigState").Member("Devices");
  TRY_ASSIGN(const auto devices, list.Elements());
  std::set<std::string> uuids;
  for (const auto& element : devices) {
    TRY_ASSIGN(auto device, ReadDevice(element));
    if (!uuids.insert(device.uuid).second) return element.Wrong("stands there twice");
    checkpoint.devices.push_back(std::move(device));
  }
  return checkpoint;
}

std::string InstanceText(const GpuInstance& instance) {
  std::vector<std::string> compute;
  for (const auto& one : instance.compute) {
    compute.push_back(fmt::format(R"({{"ProfileID":{},"EngProfileID":0}})", one.profile));
  }
  const auto place = instance.placement.value_or(gpu::MigPlacement{});
  return fmt::format(
      R"({{"ProfileID":{},"Placement":{{"Start":{},"Size":{}}},"ComputeInstances":{}}})",
      instance.profile, place.start, place.size,
      compute.empty() ? "null" : fmt::format("[{}]", fmt::join(compute, ",")));
}

}  // namespace

base::Result<Checkpoint> MakeCheckpoint(const std::vector<Gpu>& gpus) {
  Checkpoint checkpoint;
  for (const Gpu& gpu : gpus) {
    if (gpu.CannotDoMig()) continue;
    if (gpu.mode.is_unknown()) return base::Fail(gpu.mode.error()->Within(gpu.Title()));
    if (gpu.layout.is_unknown()) return base::Fail(gpu.layout.error()->Within(gpu.Title()));
    CheckpointDevice device{.uuid = gpu.uuid, .layout = {}};
    if (gpu.layout.is_present()) device.layout = *gpu.layout.value();
    // Upstream's order: by profile.
    std::ranges::stable_sort(device.layout.instances, {}, [](const GpuInstance& instance) {
      return std::tuple(instance.profile, instance.placement);
    });
    for (auto& instance : device.layout.instances) {
      for (auto& compute : instance.compute) compute.placement.reset();
      std::ranges::stable_sort(instance.compute, {}, &ComputeInstance::profile);
    }
    checkpoint.devices.push_back(std::move(device));
  }
  return checkpoint;
}

std::string ToJsonText(const Checkpoint& checkpoint) {
  std::vector<std::string> devices;
  for (const auto& device : checkpoint.devices) {
    std::vector<std::string> instances;
    for (const auto& instance : device.layout.instances)
      instances.push_back(InstanceText(instance));
    devices.push_back(
        fmt::format(R"({{"UUID":{},"MigMode":{},"GpuInstances":{}}})",
                    codec::ToJsonText(Json(device.uuid)), device.layout.mig_enabled ? 1 : 0,
                    instances.empty() ? "null" : fmt::format("[{}]", fmt::join(instances, ","))));
  }
  return fmt::format(R"({{"Version":"v1","MigState":{{"Devices":{}}}}})",
                     devices.empty() ? "null" : fmt::format("[{}]", fmt::join(devices, ",")));
}

base::Result<Checkpoint> ParseCheckpoint(std::string_view text, std::string_view source) {
  const auto document = codec::ParseJson(text, source);
  if (!document) {
    return base::Fail(base::Invalid("InvalidCheckpoint", document.error().message));
  }
  auto checkpoint = ReadCheckpoint({*document, ""});
  if (!checkpoint) return base::Fail(checkpoint.error().Within(source));
  return checkpoint;
}

base::Result<Checkpoint> LoadCheckpoint(const std::filesystem::path& file) {
  TRY_ASSIGN(const auto text, base::ReadFile(file));
  return ParseCheckpoint(text, file.string());
}

}  // namespace pitcrew::node::mig

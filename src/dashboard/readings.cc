#include "dashboard/readings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "gpu/mig_profile.h"
#include "prom/sample.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;
using Member = std::optional<double> GpuReading::*;

struct Series {
  std::string_view name;
  Member member;
  bool of_parent;  // also where it stands with an instance, it is the whole GPU's (section 3.3)
};
constexpr std::array<Series, 6> kSeries{{
    {"DCGM_FI_DEV_GPU_TEMP", &GpuReading::temperature, true},
    {"DCGM_FI_DEV_POWER_USAGE", &GpuReading::power, true},
    {"DCGM_FI_DEV_GPU_UTIL", &GpuReading::utilisation, true},
    {"DCGM_FI_DEV_FB_USED", &GpuReading::memory_used_mib, false},
    {"DCGM_FI_DEV_FB_FREE", &GpuReading::memory_free_mib, false},
    {"DCGM_FI_DEV_XID_ERRORS", &GpuReading::xid, false},
}};

const Series* SeriesNamed(std::string_view name) {
  const auto* found = std::ranges::find(kSeries, name, &Series::name);
  return found == kSeries.end() ? nullptr : &*found;
}

// Of a GPU that pods share there is a series for each of them.
void AddPod(const prom::Sample& sample, GpuReading& reading) {
  const auto pod = sample.Label("pod", "pod_name");
  if (pod.empty()) return;
  reading.pods.insert(std::string(sample.Label("namespace", "pod_namespace")) + "/" +
                      std::string(pod));
}

Json ReadingJson(const GpuReading& reading) {
  Json json = Json::object();
  const std::array<std::pair<const char*, std::optional<double>>, 6> numbers{{
      {"temperature", reading.temperature},
      {"power", reading.power},
      {"utilisation", reading.utilisation},
      {"memoryUsedMiB", reading.memory_used_mib},
      {"memoryFreeMiB", reading.memory_free_mib},
      {"xid", reading.xid},
  }};
  for (const auto& [name, value] : numbers) {
    if (value) json[name] = *value;
  }
  json["pods"] = reading.pods;
  return json;
}

}  // namespace

std::map<std::int64_t, GpuWithInstances> ReadExposition(std::string_view text) {
  std::map<std::int64_t, GpuWithInstances> gpus;
  prom::ForEachSample(text, [&gpus](const prom::Sample& sample) {
    const Series* series = SeriesNamed(sample.name);
    const auto number = base::ParseInteger(series == nullptr ? "" : sample.Label("gpu"));
    if (!number) return;
    GpuWithInstances& gpu = gpus[*number];
    if (gpu.uuid.empty()) gpu.uuid = sample.Label("UUID", "uuid");
    if (gpu.model.empty()) gpu.model = sample.Label("modelName");
    const auto id = base::ParseInteger(sample.Label("GPU_I_ID"));
    GpuWithInstances::Instance* instance = id ? &gpu.instances[*id] : nullptr;
    if (instance != nullptr) instance->profile = sample.Label("GPU_I_PROFILE");
    const bool whole = instance == nullptr || series->of_parent;
    (whole ? gpu.reading : instance->reading).*series->member = sample.value;
    AddPod(sample, instance == nullptr ? gpu.reading : instance->reading);
  });
  return gpus;
}

Json ToJson(const std::map<std::int64_t, GpuWithInstances>& gpus) {
  Json list = Json::array();
  for (const auto& [number, gpu] : gpus) {
    Json json = ReadingJson(gpu.reading);
    json["index"] = number;
    json["uuid"] = gpu.uuid;
    json["model"] = gpu.model;
    Json instances = Json::array();
    for (const auto& [id, instance] : gpu.instances) {
      Json part = ReadingJson(instance.reading);
      part["id"] = id;
      part["profile"] = instance.profile;
      const auto profile = gpu::MigProfile::Parse(instance.profile);
      if (profile) part["slices"] = profile->gpu_slices;
      instances.push_back(std::move(part));
    }
    json["instances"] = std::move(instances);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace pitcrew::dashboard

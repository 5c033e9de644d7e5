#include "dashboard/readings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "gpu/mig_profile.h"

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

struct Sample {
  std::string_view name;
  std::map<std::string_view, std::string_view> labels;
  double value = 0;

  // The first of these that there is: names of upstream's before 2020 still occur, by a flag.
  [[nodiscard]] std::string_view Label(std::string_view name_now,
                                       std::string_view name_before = {}) const {
    for (const std::string_view key : {name_now, name_before}) {
      const auto found = labels.find(key);
      if (found != labels.end()) return found->second;
    }
    return {};
  }
};

// The end of a label's value: a quotation mark before ',' or '}', as nothing in it is escaped.
std::size_t EndOfValue(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '"' && (text[i + 1] == ',' || text[i + 1] == '}')) return i;
  }
  return std::string_view::npos;
}

// NAME{LABEL="VALUE",...} NUMBER; nothing for any other line.
std::optional<Sample> ReadSample(std::string_view line) {
  const auto brace = line.find('{');
  if (line.starts_with('#') || brace == std::string_view::npos) return std::nullopt;
  Sample sample{.name = line.substr(0, brace), .labels = {}};
  std::string_view rest = line.substr(brace + 1);
  while (!rest.starts_with('}')) {
    const auto equals = rest.find("=\"");
    if (equals == std::string_view::npos) return std::nullopt;
    const auto end = EndOfValue(rest.substr(equals + 2));
    if (end == std::string_view::npos) return std::nullopt;
    sample.labels[rest.substr(0, equals)] = rest.substr(equals + 2, end);
    rest.remove_prefix(equals + 2 + end + 1);
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
  const auto number = base::Trim(rest.substr(1));
  const auto value = base::ParseDouble(number.substr(0, number.find(' ')));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  sample.value = *value;
  return sample;
}

const Series* SeriesNamed(std::string_view name) {
  const auto* found = std::ranges::find(kSeries, name, &Series::name);
  return found == kSeries.end() ? nullptr : &*found;
}

// Of a GPU that pods share there is a series for each of them.
void AddPod(const Sample& sample, GpuReading& reading) {
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
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto sample = ReadSample(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const Series* series = sample ? SeriesNamed(sample->name) : nullptr;
    const auto number = base::ParseInteger(series == nullptr ? "" : sample->Label("gpu"));
    if (!number) continue;
    GpuWithInstances& gpu = gpus[*number];
    if (gpu.uuid.empty()) gpu.uuid = sample->Label("UUID", "uuid");
    if (gpu.model.empty()) gpu.model = sample->Label("modelName");
    const auto id = base::ParseInteger(sample->Label("GPU_I_ID"));
    GpuWithInstances::Instance* instance = id ? &gpu.instances[*id] : nullptr;
    if (instance != nullptr) instance->profile = sample->Label("GPU_I_PROFILE");
    const bool whole = instance == nullptr || series->of_parent;
    (whole ? gpu.reading : instance->reading).*series->member = sample->value;
    AddPod(*sample, instance == nullptr ? gpu.reading : instance->reading);
  }
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

// What the metrics exporter of a node tells of its GPUs: readings, MIG instances by GPU, and which
// pod has which (metrics-exporter.md sections 3.3, 4.3 and 6: series and labels).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"

namespace pitcrew::dashboard {

// None where the exporter does not tell.
struct GpuReading {
  std::optional<double> temperature;      // degrees Celsius
  std::optional<double> power;            // W
  std::optional<double> utilisation;      // per cent
  std::optional<double> memory_used_mib;  // with memory_free_mib: of a GPU or an instance
  std::optional<double> memory_free_mib;
  std::optional<double> xid;   // the last one; never goes back to 0 (section 10)
  std::set<std::string> pods;  // "namespace/name", that have it or share it

  bool operator==(const GpuReading&) const = default;
};

struct GpuWithInstances {
  std::string uuid;
  std::string model;
  GpuReading reading;
  struct Instance {
    std::string profile;
    GpuReading reading;
  };
  std::map<std::int64_t, Instance> instances;  // by the id of the GPU instance
};

// By the exporter's number of the GPU. From Prometheus' text.
std::map<std::int64_t, GpuWithInstances> ReadExposition(std::string_view text);
codec::Json ToJson(const std::map<std::int64_t, GpuWithInstances>& gpus);

}  // namespace pitcrew::dashboard

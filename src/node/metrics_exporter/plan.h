// What a round asks NVML, and what its series are about: a pure function of the counters and of the
// GPUs that there are (metrics-exporter.md section 5).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "node/metrics_exporter/device_selection.h"
#include "node/metrics_exporter/series.h"
#include "nvml/meter.h"

namespace pitcrew::node::metrics_exporter {

struct PlannedEntity {
  Entity entity;
  std::size_t gpu = 0;           // position in Inventory::devices
  std::size_t question_set = 0;  // position in Plan::questions
  std::size_t part = 0;          // of it, for what an instance answers itself; 0 is the GPU
  const gpu::MigDevice* instance = nullptr;  // borrowed from the inventory
  std::optional<unsigned> link;
};

struct Plan {
  std::vector<nvml::GpuQuestions> questions;  // part 0 of each is the whole GPU
  std::vector<PlannedEntity> entities;
  // Entities that are GPUs or instances come first; behind them those of links.
};

struct PlanOptions {
  DeviceSelection gpus;
  DeviceSelection switches;  // its kind tells whether links have series
  bool replace_blanks = false;
  bool processes = false;
};

// NVLinks of a GPU that are up, by its UUID.
using LinksUp = std::map<std::string, std::vector<unsigned>>;

// `inventory` must outlive the plan. GPUs with a fault are left out.
Plan MakePlan(const std::vector<Counter>& counters, const gpu::Inventory& inventory,
              const LinksUp& links, const PlanOptions& options);

// Whether any of the counters is about links.
bool AsksForLinks(const std::vector<Counter>& counters);

// kInvalid "NoSuchDevice" names an id of the selection that no device has.
base::Status CheckSelection(const DeviceSelection& selection, const gpu::Inventory& inventory);

// The field's question as it is put for a link; the field's own without one.
nvml::Question QuestionFor(const Field& field, const std::optional<unsigned>& link);
// The two counters behind a rate: what is sent and what is received.
nvml::Question LinkCounterQuestion(Direction direction, std::uint32_t link);

}  // namespace pitcrew::node::metrics_exporter

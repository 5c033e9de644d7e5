// What one round of readings says, as values: made by round.h, written as text by text.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "node/metrics_exporter/counters.h"
#include "nvml/meter.h"

namespace pitcrew::node::metrics_exporter {

using Attributes = std::vector<std::pair<std::string, std::string>>;

// In the order in which they are written. NVSwitches and processors have no series: NVML does not
// know them.
enum class Group : std::uint8_t { kGpu, kSwitch, kLink, kCpu, kCpuCore };

// What series are about: a GPU, a MIG instance, or a link.
struct Entity {
  Group group = Group::kGpu;
  std::string number;  // the label gpu (of a link as well), nvswitch, cpu or cpucore
  std::string uuid;    // of the full GPU
  std::string pci_bus_id;
  std::string device;  // "nvidia0"; of a core its processor's number
  std::string model;
  std::string profile;                      // of a MIG instance, "1g.10gb"
  std::string gpu_instance;                 // its number
  std::string link;                         // of a link: its number
  std::string parent_switch;                // of a link: the switch it belongs to
  Attributes info;                          // counters of the type label, by name
  std::vector<nvml::ProcessUse> processes;  // where they were asked for

  // Which pods are looked for (metrics-exporter.md 6.3): "0-7" for a MIG instance.
  [[nodiscard]] std::string InstanceKey() const { return number + "-" + gpu_instance; }
};

struct Sample {
  std::size_t entity = 0;  // position in Round::entities
  std::string value;
  Attributes attributes;  // by name
};

struct Family {
  Counter counter;
  std::vector<Sample> samples;
  std::string silence;  // why there are none
};

struct GpuState {
  std::string number;
  std::string uuid;
  std::optional<base::Error> fault;  // why it has no series
};

struct Round {
  base::WallClock::time_point begun;
  std::chrono::duration<double> took{};
  std::vector<Entity> entities;
  std::vector<Family> families;  // by number of the field, then by name; without labels
  std::vector<GpuState> gpus;
  // Entity::InstanceKey() of every MIG device, by its UUID.
  std::map<std::string, std::string, std::less<>> mig_devices;
};

}  // namespace pitcrew::node::metrics_exporter

// Rounds as Prometheus' text (metrics-exporter.md 4.3).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "node/metrics_exporter/series.h"

namespace pitcrew::node::metrics_exporter {

struct TextOptions {
  bool old_namespace = false;  // uuid instead of UUID
  std::string hostname = {};   // empty: no such label
  std::string hostname_label = "hostname";
};

// One copy of a series: what is added to its labels.
struct Owner {
  Attributes labels = {};      // pod labels: among those of the type label, by name
  Attributes attributes = {};  // pod, namespace, container, ...
  // For metrics that are told apart by process: the pod's own part, instead of the series' value.
  std::map<std::string, std::string, std::less<>> values = {};
};
struct Owners {
  std::vector<Owner> of;  // none: the series stays as it is
  // Metrics of which the series of the device is written too, before those of `of`.
  std::vector<std::string> also_device;
};
// By position of the entity.
using OwnersOf = std::vector<Owners>;

// `owners` may be shorter than the entities: those behind have none.
std::string ToText(const Round& round, const OwnersOf& owners, const TextOptions& options);

}  // namespace pitcrew::node::metrics_exporter

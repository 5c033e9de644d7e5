// Configuration of the worker (node-feature-discovery.md 4).
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/nfd/config_texts.h"
#include "node/nfd/label_rules.h"
#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {

// Who deletes the NodeFeature with them.
enum class Owner { kNode, kPod, kDaemonSet };
// node, pod, ds; unknown and double members are errors; the result is in this order.
base::Result<std::vector<Owner>> ParseOwners(const std::vector<std::string>& names);

struct WorkerConfig {
  LabelWhiteList label_white_list;
  bool no_publish = false;
  std::vector<Owner> owners = {Owner::kPod, Owner::kDaemonSet};
  std::set<std::string> feature_sources;         // resolved: names of sources that discover
  std::vector<std::string> label_sources;        // resolved: in order of rising priority
  std::vector<std::string> no_publish_features;  // exact names, or prefixes that end in "*"
  std::chrono::nanoseconds sleep_interval = std::chrono::seconds(60);  // <= 0: no repetition
  PciConfig pci;
};

// What the command line says instead of the file.
struct WorkerOverrides {
  std::optional<bool> no_publish;
  std::optional<bool> no_owner_refs;
  std::optional<std::vector<std::string>> owner_refs;
  std::optional<std::vector<std::string>> feature_sources;
  std::optional<std::vector<std::string>> label_sources;
  std::optional<std::vector<std::string>> no_publish_features;
};

base::Result<WorkerConfig> MakeWorkerConfig(const ConfigTexts& texts,
                                            const WorkerOverrides& overrides);

// Names of all sources by rising priority of their labels, then by name.
const std::vector<std::string>& AllSources();

}  // namespace pitcrew::node::nfd

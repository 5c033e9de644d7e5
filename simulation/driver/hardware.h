// The hardware of a node where nobody else provides it: its description where drivers look for it,
// and what node feature discovery says of a node with such GPUs. For clusters whose nodes are not
// ours to give PCI devices to (the chart simulated-gpus).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace pitcrew::simulation {

// On the host, below its root.
constexpr const char* kDescriptionFile = "etc/pitcrew/simulated-gpus.yaml";

struct HardwareOptions {
  std::filesystem::path description;      // YAML; refused when malformed
  std::filesystem::path host_root = "/";  // the node's root as seen from here
  // Folder of the node that node feature discovery reads (its source "local"); empty: none.
  std::filesystem::path features_folder;
  std::vector<std::string> features;  // names that are "true"
};

// Puts description and features in their places. kInvalid "MalformedDescription"; on every other
// error nothing is left behind.
base::Status ProvideHardware(const HardwareOptions& options);
// Takes them away. Files that are not there are no error.
base::Status RemoveHardware(const HardwareOptions& options);
// Whether the node has a description.
bool HasHardware(const std::filesystem::path& host_root);

}  // namespace pitcrew::simulation

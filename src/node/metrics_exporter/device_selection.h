// Which devices have series: the grammar of -d, -s and -p (metrics-exporter.md 5.2).
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::metrics_exporter {

struct DeviceSelection {
  enum class Kind {
    kFlexible,  // f: MIG instances where a GPU has some, else the GPU; everything of other devices
    kWhole,     // g: GPUs, switches, processors
    kParts,     // i: MIG instances, links, cores
  };
  Kind kind = Kind::kFlexible;
  std::vector<unsigned> ids;  // ascending; empty: all

  [[nodiscard]] bool Takes(unsigned id) const;
};

// `flag` names it in errors. kInvalid "BadDeviceOption".
base::Result<DeviceSelection> ParseDeviceSelection(std::string_view text, std::string_view flag);

}  // namespace pitcrew::node::metrics_exporter

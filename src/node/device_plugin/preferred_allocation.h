// Which of the available devices a container should get (device-plugin.md section 15). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/inventory.h"
#include "node/device_plugin/resources.h"
#include "node/device_plugin/settings.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::device_plugin {

// How well GPUs are connected, by NVML index; pairs without a value score 0.
class LinkScores {
 public:
  LinkScores() = default;
  explicit LinkScores(const gpu::Topology& topology);
  // Nearness plus 100 for each NVLink, of both directions together.
  [[nodiscard]] int Between(const std::string& index, const std::string& other) const;

 private:
  std::map<std::pair<std::string, std::string>, int> scores_;
};

// Whole GPUs that are not shared: the set of GPUs that are connected best, such that the GPUs left
// over are connected well, too. Anything else: replicas spread over GPUs, or packed onto few.
// kInvalid for an id that is not in `devices`, or when there are too few for a shared resource; too
// few whole GPUs give an empty list, as upstream does.
base::Result<std::vector<std::string>> Prefer(const std::vector<OfferedDevice>& devices,
                                              const rpc::PreferredRequest& request,
                                              const LinkScores& scores, SharedAllocation policy);

}  // namespace pitcrew::node::device_plugin

// The operands of this node that leave it while a manager changes its GPUs: paused by their deploy
// labels, and resumed together with what the node says of the change's end (mig-manager.md 9.3,
// vgpu-device-manager.md 6.2, virtualisation-and-olm.md).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::operand_pause {

// What the node says at the end of a change; without a value the label or annotation goes.
using Values = std::map<std::string_view, std::optional<std::string>>;
struct Told {
  Values labels = {};
  Values annotations = {};
};

class OperandPause {
 public:
  struct Settings {
    std::string namespace_name;            // of the operands
    std::vector<std::string_view> labels;  // nvidia.com/gpu.deploy.*
    std::string_view word;                 // api::kPausedFor...
  };
  // `node` outlives it.
  OperandPause(own_node::OwnNode& node, Settings settings);

  // Pauses those that the node has, and waits until their pods have left. What has been paused when
  // it fails stays so until Resume. kTimeout "OperandsStillRunning".
  base::Status PauseAll(std::chrono::steady_clock::duration patience, const io::StopToken& stop);

  // Also those that an earlier process has paused. Labels and `told` are one write, so that nobody
  // sees the one without the other. When it fails, operands may stay away from the node: whoever
  // calls it has to come back, however the change itself ended. kUnavailable "NotResumed" then,
  // also for an API server that refuses: permissions are given and taken; kCancelled on stop.
  base::Status Resume(const Told& told, const io::StopToken& stop) const;

 private:
  own_node::OwnNode& node_;
  Settings settings_;
};

}  // namespace pitcrew::node::operand_pause

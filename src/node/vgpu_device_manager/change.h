// One change of a node's vGPUs, from the label to the new ones or back to those before
// (vgpu-device-manager.md section 6.3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "codec/json.h"
#include "io/stop.h"
#include "node/mig/node_gpus.h"
#include "node/own_node/annotation_writer.h"
#include "node/own_node/label_watch.h"
#include "node/own_node/own_node.h"
#include "node/vgpu/node_vgpus.h"
#include "node/vgpu_device_manager/options.h"

namespace pitcrew::node::vgpu_device_manager {

// What a change needs; all of it outlives the change.
struct Context {
  const Options& options;
  own_node::OwnNode& node;
  own_node::LabelWatch& labels;
  vgpu::NodeVgpus& vgpus;
  mig::NodeGpus& mig;
  own_node::AnnotationWriter& progress;
  io::StopToken stop;
};

struct End {
  enum class Kind {
    kSuccess,    // the vGPUs are as wanted
    kFailed,     // they are as before; the node says why
    kAbandoned,  // told to stop, or another configuration is wanted: nothing was changed
  };
  Kind kind = Kind::kSuccess;
  std::optional<base::Error> error;  // of kFailed
};

// Makes the vGPUs of that configuration, and tells the node how it went. Whatever happens, operands
// that were paused for it run again at the end. Waits end early when the label changes; once vGPUs
// are being changed, the change is carried through or taken back.
End ApplyConfig(const Context& context, const std::string& wanted);

}  // namespace pitcrew::node::vgpu_device_manager

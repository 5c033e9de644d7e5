// One change of a node's MIG geometry, from the label to the new geometry or back to the one before
// (mig-manager.md 9.4).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/mig_progress.h"
#include "base/error.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/mig/node_gpus.h"
#include "node/mig_manager/config_source.h"
#include "node/mig_manager/options.h"
#include "node/own_node/annotation_writer.h"
#include "node/own_node/label_watch.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::mig_manager {

// What a change needs; all of it outlives the change.
struct Context {
  const Options& options;
  own_node::OwnNode& node;
  own_node::LabelWatch& labels;
  mig::NodeGpus& gpus;
  ConfigSource& configs;
  own_node::AnnotationWriter& progress;
  io::StopToken stop;
};

struct End {
  enum class Kind {
    kSuccess,    // the GPUs are as wanted
    kFailed,     // they are as before; the node says why
    kRebooting,  // the node restarts, and the change goes on then
    kAbandoned,  // told to stop, or another configuration is wanted: nothing was changed
  };
  Kind kind = Kind::kSuccess;
  std::optional<base::Error> error;  // of kFailed
};

// Makes the geometry that the label names, and tells the node how it went. Whatever happens (but a
// restart of the node), what was paused or stopped for it runs again at the end. Waits end early
// when the label changes; once GPUs are being changed, the change is carried through or taken back.
End ApplyLabel(const Context& context, const std::string& wanted);

// Tidies up after a manager that died: operands that it had paused run again, followers are told
// that nothing is being changed, GPUs that were half divided are as before. For a node that asks
// for no configuration; ApplyLabel does it by itself.
base::Status TidyUp(const Context& context);

}  // namespace pitcrew::node::mig_manager

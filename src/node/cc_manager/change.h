// One change of a node's mode of confidential computing, from the label to the new mode or back to
// that of before (virtualisation-and-olm.md section 12.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/stop.h"
#include "node/cc_manager/options.h"
#include "node/own_node/annotation_writer.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/label_watch.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::cc_manager {

// What a change needs; all of it outlives the change.
struct Context {
  const Options& options;
  own_node::OwnNode& node;
  own_node::LabelWatch& labels;
  own_node::AnnotationWriter& progress;
  const std::string& fallback;  // the mode of a node without the label
  io::StopToken stop;
};

// Puts the GPUs into that mode, and tells the node how it went. Whatever happens, operands that
// were paused for it run again at the end. Waits end early when the label changes; once devices are
// being changed, the change is carried through or taken back.
own_node::Followed ApplyMode(const Context& context, const std::string& wanted);

// Takes away the file that tells the validator that the mode is as wanted.
base::Status ForgetReady(const Options& options);

}  // namespace pitcrew::node::cc_manager

// The confidential computing manager's life: follows the label nvidia.com/cc.mode of its node
// (virtualisation-and-olm.md section 12.1).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/uevent.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/cc_manager/options.h"
#include "node/own_node/annotation_writer.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/label_watch.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::cc_manager {

class Daemon {
 public:
  Daemon(const Options& options, std::shared_ptr<kube::Client> client, io::StopToken stop);

  // Until the stop. Fails only when the node cannot be watched: what goes wrong with a mode is told
  // by the node's state, and tried again when that may help.
  base::Status Run();

 private:
  own_node::Followed Make(const std::string& wanted);
  [[nodiscard]] std::string DefaultMode() const;

  const Options& options_;
  const std::shared_ptr<kube::Client> client_;
  const io::StopToken stop_;
  own_node::OwnNode node_;
  own_node::AnnotationWriter progress_;
  std::string fallback_;  // the mode of a node without the label
  std::unique_ptr<own_node::LabelWatch> labels_;
  std::optional<host::UeventReceiver> kernel_;
};

}  // namespace pitcrew::node::cc_manager

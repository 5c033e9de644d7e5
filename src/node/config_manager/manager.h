// Follows a label of the node, and the configurations in a folder, with a link and a signal
// (device-plugin.md section 19).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/config_manager/options.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::config_manager {

class Manager {
 public:
  Manager(Options options, std::shared_ptr<kube::Client> client);

  // Until the stop, or once with --oneshot. It begins when the node has been read. An error is one
  // of the first choice: with nothing linked there is nothing to go on with. Later the last good
  // configuration stays, and an Event on the node says why.
  base::Status Run(const io::StopToken& stop);

 private:
  // Links what the label's value chooses. True when the process has to be told.
  base::Result<bool> Apply(const std::string& label);
  // Apply, with what follows from it; an error only where Run has one.
  base::Status Follow(const std::string& label);
  base::Status Signal() const;

  const Options options_;
  own_node::OwnNode node_;
  // What was linked last, and its text: a ConfigMap can be edited under the same name.
  bool linked_ = false;
  std::string text_;
  std::string told_;  // the error that the last Event was about
};

}  // namespace pitcrew::node::config_manager

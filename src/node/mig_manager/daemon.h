// The MIG manager's life: follows the label nvidia.com/mig.config of its node (mig-manager.md 9.2).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "host/uevent.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/mig/node_gpus.h"
#include "node/mig_manager/change.h"
#include "node/mig_manager/config_source.h"
#include "node/mig_manager/options.h"
#include "node/own_node/annotation_writer.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/label_watch.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::mig_manager {

class Daemon {
 public:
  Daemon(const Options& options, std::shared_ptr<kube::Client> client, io::StopToken stop);

  // Until the stop. Fails only at the start: without a configuration (a custom file that is
  // missing, no profiles and no default), or when the node cannot be watched.
  base::Status Run();

 private:
  [[nodiscard]] Context ContextOfChange();
  own_node::Followed Make(const std::string& wanted);
  // Whether the configurations may be others now: files, GPUs.
  base::Result<bool> TakeChanges();

  const Options& options_;
  const std::shared_ptr<kube::Client> client_;
  const io::StopToken stop_;
  own_node::OwnNode node_;
  mig::NodeGpus gpus_;
  ConfigSource configs_;
  own_node::AnnotationWriter progress_;
  std::unique_ptr<own_node::LabelWatch> labels_;
  std::optional<io::FileWatcher> files_;
  std::optional<host::UeventReceiver> kernel_;
};

}  // namespace pitcrew::node::mig_manager

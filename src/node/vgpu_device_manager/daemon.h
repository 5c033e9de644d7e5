// The vGPU device manager's life: follows the label nvidia.com/vgpu.config of its node
// (vgpu-device-manager.md section 6.3).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/uevent.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/mig/node_gpus.h"
#include "node/own_node/annotation_writer.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/label_watch.h"
#include "node/own_node/own_node.h"
#include "node/vgpu/node_vgpus.h"
#include "node/vgpu_device_manager/options.h"

namespace pitcrew::node::vgpu_device_manager {

class Daemon {
 public:
  Daemon(const Options& options, std::shared_ptr<kube::Client> client, io::StopToken stop);

  // Until the stop. Fails only when files or the node cannot be watched: a configuration that is
  // wrong or missing is told by the node's state, and read again when it changes.
  base::Status Run();

 private:
  own_node::Followed Make(const std::string& wanted);
  // Whether a failure may have been about what has happened: files, GPUs.
  base::Result<bool> TakeChanges();

  const Options& options_;
  const std::shared_ptr<kube::Client> client_;
  const io::StopToken stop_;
  own_node::OwnNode node_;
  vgpu::NodeVgpus vgpus_;
  mig::NodeGpus mig_;
  own_node::AnnotationWriter progress_;
  std::unique_ptr<own_node::LabelWatch> labels_;
  std::optional<io::FileWatcher> files_;
  std::optional<host::UeventReceiver> kernel_;
};

}  // namespace pitcrew::node::vgpu_device_manager

// Following labels of one's own Node, for components that people steer by a label
// (nvidia.com/mig.config, nvidia.com/vgpu.config, nvidia.com/device-plugin.config).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/observed.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::node::own_node {

// Level-triggered: what counts is the value now; values in between may never be seen.
class LabelWatch {
 public:
  // Watches the Node from now on, through restarts of the API server.
  static base::Result<std::unique_ptr<LabelWatch>> Start(std::shared_ptr<kube::Client> client,
                                                         const std::string& node_name,
                                                         std::vector<std::string> labels);
  ~LabelWatch();
  LabelWatch(const LabelWatch&) = delete;
  LabelWatch& operator=(const LabelWatch&) = delete;

  // Readable when a label may have changed since the last Take; for io::WaitReadable. Borrowed.
  [[nodiscard]] int fd() const;
  // Makes fd() unreadable until the next change. Call it before reading values.
  void Take();
  // Unknown until the Node has been read once; absent also when the Node is gone.
  [[nodiscard]] base::Observed<std::string> Value(std::string_view label) const;
  // Until the Node has been read once: kTimeout or kCancelled.
  base::Status WaitUntilKnown(const io::StopToken& stop, base::Deadline deadline = {}) const;

 private:
  struct Implementation;
  explicit LabelWatch(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::node::own_node

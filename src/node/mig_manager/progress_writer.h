// Writing a change's progress into the Node's annotation without ever holding the change up: an API
// server that is slow or away must not leave GPUs half divided.
#pragma once

#include <memory>
#include <string>

#include "api/mig_progress.h"
#include "kube/client.h"

namespace pitcrew::node::mig_manager {

// Best effort, from a thread of its own; of what comes while a write is under way only the last
// counts. For one thread.
class ProgressWriter {
 public:
  ProgressWriter(std::shared_ptr<kube::Client> client, std::string node_name);
  // Ends a write that is under way.
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  void Write(const api::MigProgress& progress);
  // Forgets what is not written yet and waits for the write that is under way: nothing overtakes
  // what the caller writes next.
  void Settle();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::node::mig_manager

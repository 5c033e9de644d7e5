// Writing an annotation of one's own Node without ever holding the writer up: an API server that is
// slow or away must not leave GPUs half divided.
#pragma once

#include <memory>
#include <string>

#include "kube/client.h"

namespace pitcrew::node::own_node {

// Best effort, from a thread of its own; of what comes while a write is under way only the last
// counts. For one thread.
class AnnotationWriter {
 public:
  // `component` is the field manager of the writes.
  AnnotationWriter(std::shared_ptr<kube::Client> client, std::string node_name,
                   std::string component, std::string annotation);
  // Ends a write that is under way.
  ~AnnotationWriter();
  AnnotationWriter(const AnnotationWriter&) = delete;
  AnnotationWriter& operator=(const AnnotationWriter&) = delete;

  void Write(std::string text);
  // Forgets what is not written yet and waits for the write that is under way: nothing overtakes
  // what the caller writes next.
  void Settle();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::node::own_node

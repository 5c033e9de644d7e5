// A component's user whose right to write Nodes comes and goes: an API server that refuses the one
// write that a component makes at the end, and takes all the others.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "codec/json.h"
#include "kube/client.h"

namespace pitcrew::testing {

// On ApiServer::Shared(), as the stranger; one at a time. May read everything, and write what the
// managers of a node write beside its Node. Begins without the right.
class UnsteadyWriter {
 public:
  // `node` exists.
  explicit UnsteadyWriter(std::string node);
  // Takes every right away again.
  ~UnsteadyWriter();
  UnsteadyWriter(const UnsteadyWriter&) = delete;
  UnsteadyWriter& operator=(const UnsteadyWriter&) = delete;

  [[nodiscard]] const std::shared_ptr<kube::Client>& client() const { return client_; }
  // Gives the right to write Nodes, and returns once the API server acts on it.
  void Allow();

 private:
  // A role with these rules, and the stranger bound to it.
  void Grant(const std::string& role, const codec::Json& rules);
  [[nodiscard]] bool MayWrite() const;

  const std::shared_ptr<kube::Client> admin_;
  const std::string node_;
  std::shared_ptr<kube::Client> client_;
};

// Waits for an Event about a Node with this reason; false when it takes minutes.
bool WaitForNodeEvent(const std::shared_ptr<kube::Client>& client, const std::string& node,
                      std::string_view reason);

}  // namespace pitcrew::testing

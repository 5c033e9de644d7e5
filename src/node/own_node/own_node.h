// The Node object of the machine that this process runs on: reading and changing it, telling about
// it by Events, and following its labels.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/events.h"
#include "kube/retry.h"

namespace pitcrew::node::own_node {

struct Identity {
  std::string node_name;
  std::string component;  // field manager of writes and source of Events: "driver-manager"
  std::string pod_name;   // the instance in Events; empty: the node's name
};

// Calls block; not for several threads at once.
class OwnNode {
 public:
  OwnNode(std::shared_ptr<kube::Client> client, Identity identity);
  // With a client of its own, named after the component; as kube::LoadConfig finds the server.
  static base::Result<std::unique_ptr<OwnNode>> Open(const std::filesystem::path& kubeconfig,
                                                     Identity identity);

  [[nodiscard]] const std::string& name() const { return identity_.node_name; }
  [[nodiscard]] const std::shared_ptr<kube::Client>& client() const { return client_; }

  base::Result<codec::Json> Read(const io::StopToken& stop) const;

  // A merge patch of the Node that does not depend on what stands there, for example of a state
  // label that only this component writes. What may pass (no connection, a server that is busy) is
  // tried again, seven times within about a minute, as upstream's node components do
  // (driver-lifecycle.md 4.5).
  base::Status Patch(const codec::Json& patch, const io::StopToken& stop) const;

  // A change that depends on what stands there: `decide` gets the Node and returns a merge patch,
  // or nothing when all is as it should be. The patch counts only if nobody changed the Node since;
  // otherwise it is read and decided anew. The Node as `decide` saw it last.
  using Decide = std::function<std::optional<codec::Json>(const codec::Json& node)>;
  base::Result<codec::Json> Change(const Decide& decide, const io::StopToken& stop) const;

  // An Event on the Node; repeated ones count up one object. Best effort, never blocks.
  void Record(kube::EventType type, std::string reason, std::string message);
  // Waits until what was recorded is sent or dropped; for the end of a program.
  void FlushEvents();

 private:
  base::Status Send(const codec::Json& patch, const io::StopToken& stop) const;
  template <class Attempt>
  base::Status Retry(const io::StopToken& stop, Attempt&& attempt) const;

  std::shared_ptr<kube::Client> client_;
  Identity identity_;
  std::unique_ptr<kube::EventRecorder> events_;  // made for the first Event
};

// The merge patch that sets one label or annotation; an empty optional removes it.
codec::Json LabelPatch(std::string_view name, const std::optional<std::string>& value);
codec::Json AnnotationPatch(std::string_view name, const std::optional<std::string>& value);

// A label or annotation of an object; "" when it is missing.
std::string LabelOf(const codec::Json& object, std::string_view name);
std::string AnnotationOf(const codec::Json& object, std::string_view name);

}  // namespace pitcrew::node::own_node

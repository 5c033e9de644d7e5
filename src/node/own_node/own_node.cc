#include "node/own_node/own_node.h"

#include <fmt/format.h>

#include <utility>

#include "kube/config.h"

namespace pitcrew::node::own_node {
namespace {

using codec::Json;

constexpr int kTries = 7;
constexpr kube::BackoffPolicy kBackoff{.base = std::chrono::milliseconds(1000),
                                       .cap = std::chrono::milliseconds(32000),
                                       .jitter = 0.0};

// Whether the same call may succeed later.
bool MayPass(base::Code code) {
  return code == base::Code::kUnavailable || code == base::Code::kTooMany ||
         code == base::Code::kTimeout || code == base::Code::kConflict ||
         code == base::Code::kInternal;
}

Json MetadataPatch(const char* part, std::string_view name,
                   const std::optional<std::string>& value) {
  const Json entry = value ? Json(*value) : Json();
  return {{"metadata", {{part, {{std::string(name), entry}}}}}};
}

}  // namespace

OwnNode::OwnNode(std::shared_ptr<kube::Client> client, Identity identity)
    : client_(std::move(client)), identity_(std::move(identity)) {}

base::Result<std::unique_ptr<OwnNode>> OwnNode::Open(const std::filesystem::path& kubeconfig,
                                                     Identity identity) {
  TRY_ASSIGN(auto config, kube::LoadConfig(kubeconfig));
  TRY_ASSIGN(auto client,
             kube::Client::Create(std::move(config), {.user_agent = identity.component}));
  return std::make_unique<OwnNode>(std::move(client), std::move(identity));
}

base::Result<Json> OwnNode::Read(const io::StopToken& stop) const {
  return client_->Get(kube::kNodes, {"", identity_.node_name}, stop);
}

base::Status OwnNode::Send(const Json& patch, const io::StopToken& stop) const {
  kube::WriteOptions as;
  as.field_manager = identity_.component;
  TRY(client_->PatchVersion(kube::kNodes, {"", identity_.node_name}, kube::PatchType::kMerge, patch,
                            as, stop));
  return {};
}

template <class Attempt>
base::Status OwnNode::Retry(const io::StopToken& stop, Attempt&& attempt) const {
  for (int tries = 1;; ++tries) {
    const base::Status done = attempt();
    if (done) return done;
    if (!MayPass(done.error().code) || tries == kTries || stop.WaitFor(kBackoff.Delay(tries))) {
      return base::Fail(done.error().Within("change node " + identity_.node_name));
    }
  }
}

base::Status OwnNode::Patch(const Json& patch, const io::StopToken& stop) const {
  return Retry(stop, [&] { return Send(patch, stop); });
}

base::Result<Json> OwnNode::Change(const Decide& decide, const io::StopToken& stop) const {
  Json node;
  // Somebody else's write is no failure: it is only a reason to look again, at once.
  constexpr int kMostConflicts = 20;
  int conflicts = 0;
  TRY(Retry(stop, [&]() -> base::Status {
    while (true) {
      TRY_ASSIGN(node, Read(stop));
      auto patch = decide(node);
      if (!patch) return {};
      (*patch)["metadata"]["resourceVersion"] =
          codec::FindString(node, {"metadata", "resourceVersion"});
      auto sent = Send(*patch, stop);
      const bool raced = !sent && sent.error().code == base::Code::kConflict;
      if (!raced || ++conflicts >= kMostConflicts) return sent;
    }
  }));
  return node;
}

void OwnNode::Record(kube::EventType type, std::string reason, std::string message) {
  if (!events_) {
    events_ = std::make_unique<kube::EventRecorder>(
        client_, identity_.component,
        identity_.pod_name.empty() ? identity_.node_name : identity_.pod_name);
  }
  // `kubectl describe node` finds events by the node's name in place of its uid, as the kubelet
  // writes them.
  events_->Record({.about = {.api_version = "v1",
                             .kind = "Node",
                             .key = {"", identity_.node_name},
                             .uid = identity_.node_name},
                   .type = type,
                   .reason = std::move(reason),
                   .message = std::move(message)});
}

void OwnNode::FlushEvents() {
  if (events_) events_->Flush();
}

Json LabelPatch(std::string_view name, const std::optional<std::string>& value) {
  return MetadataPatch("labels", name, value);
}

Json AnnotationPatch(std::string_view name, const std::optional<std::string>& value) {
  return MetadataPatch("annotations", name, value);
}

std::string LabelOf(const Json& object, std::string_view name) {
  return codec::FindString(object, {"metadata", "labels", name});
}

std::string AnnotationOf(const Json& object, std::string_view name) {
  return codec::FindString(object, {"metadata", "annotations", name});
}

}  // namespace pitcrew::node::own_node

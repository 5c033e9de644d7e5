#include "operator/nodes/clean_up_node.h"

#include "base/log.h"
#include "desired/node_cleanup.h"
#include "desired/owned_object.h"

namespace pitcrew::gpu_operator {

using codec::Json;

namespace {

// A change by somebody else between reading and writing: taints are one list.
constexpr int kAttempts = 5;

base::Status CleanUpOnce(kube::Client& client, const std::string& node, const io::StopToken& stop) {
  const kube::ObjectKey key{.namespace_name = "", .name = node};
  const auto done = [&](const base::Error& error) -> base::Status {
    if (error.code == base::Code::kNotFound) return {};
    return base::Fail(error.Within("clean up node " + node));
  };
  const auto found = client.Get(kube::kNodes, key, stop);
  if (!found) return done(found.error());
  const desired::NodeCleanup cleanup = desired::DecideCleanup(*found);
  if (cleanup.empty()) return {};
  const Json patch = desired::CleanupPatch(cleanup, *found);
  const auto patched = client.Patch(kube::kNodes, key, kube::PatchType::kMerge, patch,
                                    {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (!patched) return done(patched.error());
  base::LogInfo("node cleaned up", {{"node", node}, {"change", codec::ToJsonText(patch)}});
  return {};
}

}  // namespace

base::Status CleanUpNode(kube::Client& client, const std::string& node, const io::StopToken& stop) {
  base::Status done = CleanUpOnce(client, node, stop);
  for (int i = 1; i < kAttempts && !done && done.error().code == base::Code::kConflict; ++i) {
    done = CleanUpOnce(client, node, stop);
  }
  return done;
}

}  // namespace pitcrew::gpu_operator

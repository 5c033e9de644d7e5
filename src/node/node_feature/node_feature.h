// Writing NodeFeature objects, from which node feature discovery's master makes labels of Nodes
// (node-feature-discovery.md 3.2, feature-discovery.md section 7).
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::node::node_feature {

inline constexpr kube::ResourceKind kNodeFeatures{"nfd.k8s-sigs.io", "v1alpha1", "nodefeatures",
                                                  "NodeFeature"};

// Whether the server's object has all of what its writer decides and nothing more of it: labels,
// owner references, features and labels of the spec, and annotations when `desired` has any.
// Missing, null and empty collections are equal: the API server leaves them out.
bool IsUpToDate(const codec::Json& live, const codec::Json& desired);

enum class Outcome { kCreated, kUpdated, kUnchanged };

// Keeps one object as it should be, and writes only when it differs.
class Writer {
 public:
  Writer(std::shared_ptr<kube::Client> client, kube::ObjectKey key)
      : client_(std::move(client)), key_(std::move(key)) {}

  // The "spec" that stands on the server now; null when there is no object.
  base::Result<codec::Json> CurrentSpec(const io::StopToken& stop) const;
  // `desired` is the whole object, under this writer's key. Somebody else writes it only when an
  // old pod is on its way out: a conflict is tried again, five times.
  base::Result<Outcome> Publish(const codec::Json& desired, const io::StopToken& stop) const;

 private:
  base::Result<Outcome> PublishOnce(const codec::Json& desired, const io::StopToken& stop) const;

  std::shared_ptr<kube::Client> client_;
  kube::ObjectKey key_;
};

}  // namespace pitcrew::node::node_feature

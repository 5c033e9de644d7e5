// The API of node feature discovery, as the server names it (node-feature-discovery.md 1, 3).
#pragma once

#include <string>
#include <string_view>

#include "kube/resource.h"
#include "node/node_feature/node_feature.h"

namespace pitcrew::node::nfd {

using node_feature::kNodeFeatures;

inline constexpr std::string_view kNodeNameLabel = "nfd.node.kubernetes.io/node-name";
inline constexpr std::string_view kWorkerVersion = "nfd.node.kubernetes.io/worker.version";
inline constexpr std::string_view kWorkerPodUid = "nfd.node.kubernetes.io/worker.pod.uid";
inline constexpr std::string_view kOwnedLabels = "nfd.node.kubernetes.io/feature-labels";
// Written by old masters; removed when seen.
inline constexpr std::string_view kMasterVersion = "nfd.node.kubernetes.io/master.version";

// The namespace of this pod: the service account's file, else KUBERNETES_NAMESPACE, else "".
std::string OwnNamespace();
// An environment variable, or "".
std::string Environment(const char* name);

}  // namespace pitcrew::node::nfd

// The few fields of objects that master and garbage collector keep in memory.
#pragma once

#include <cstdint>
#include <string>

#include "kube/informer.h"
#include "kube/store.h"
#include "node/nfd/node_labels.h"

namespace pitcrew::node::nfd {

kube::Projection<NodeFeatureView> NodeFeatureProjection();

// A node's identity, and a fingerprint of its labels and annotations: heartbeats do not change it.
struct NodeView {
  std::string uid;
  std::uint64_t fingerprint = 0;
  bool operator==(const NodeView&) const = default;
};
kube::Projection<NodeView> NodeProjection();

// All namespaces, in pages of that many objects.
kube::InformerOptions InPages(int page_size);

}  // namespace pitcrew::node::nfd

// Events by which the upgrade of a driver tells of a node.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "kube/events.h"
#include "kube/resource.h"

namespace pitcrew::gpu_operator {

inline constexpr std::string_view kUpgradeEvent = "GPUDriverUpgrade";

inline kube::ObjectKey KeyOfNode(const std::string& name) {
  return {.namespace_name = "", .name = name};
}

// Of a node whose object is not at hand: it gets the uid by which kubectl finds events of nodes
// that do not know the Node's own.
inline void TellOfNode(kube::EventRecorder& events, const std::string& node, kube::EventType type,
                       std::string message) {
  events.Record(
      {.about = {.api_version = "v1", .kind = "Node", .key = KeyOfNode(node), .uid = node},
       .type = type,
       .reason = std::string(kUpgradeEvent),
       .message = std::move(message)});
}

}  // namespace pitcrew::gpu_operator

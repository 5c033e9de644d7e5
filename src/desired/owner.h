// Who asks for operands, for which nodes, and with which driver: values, so that rendering does not
// depend on the kind of the object that asks. A ClusterPolicy asks for everything on all nodes;
// NVIDIADriver objects ask each for a driver on a pool of nodes, a GPUCluster for operands of its
// own (reference operator-behaviour.md sections 8 and 9).
#pragma once

#include <map>
#include <string>

#include "api/cluster_policy.h"
#include "codec/json.h"

namespace pitcrew::desired {

// The controller of the objects that are made.
struct Owner {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;

  static Owner Of(const api::ClusterPolicy& policy);
  // As metadata.ownerReferences has it.
  [[nodiscard]] codec::Json Reference() const;
  bool operator==(const Owner&) const = default;
};

// A driver as an NVIDIADriver object describes it.
struct DriverSpec {
  api::Driver driver;
  api::Component gds;
  api::Component gdrcopy;
};

// Objects for one pool of nodes. Several pools have objects side by side, each under its own names.
struct Placement {
  // In place of the names of the DaemonSet, of its label "app" and of its pods'.
  std::string daemonset;
  // In place of the names of all other objects that the manifests name after the operand.
  std::string name;
  // Beside what the manifest's node selector says.
  std::map<std::string, std::string> node_selector = {};
};

}  // namespace pitcrew::desired

// Who asks for operands, for which nodes, and with which driver: values, so that rendering does not
// depend on the kind of the object that asks. A ClusterPolicy asks for everything on all nodes;
// NVIDIADriver objects ask each for a driver on a pool of nodes, a GPUCluster for operands of its
// own (reference operator-behaviour.md sections 8 and 9).
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "api/cluster_policy.h"
#include "api/nvidia_driver.h"
#include "codec/json.h"
#include "desired/facts.h"

namespace pitcrew::desired {

// The controller of the objects that are made.
struct Owner {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;

  static Owner Of(const api::ClusterPolicy& policy);
  static Owner Of(const api::NvidiaDriver& driver);
  // As metadata.ownerReferences has it.
  [[nodiscard]] codec::Json Reference() const;
  bool operator==(const Owner&) const = default;
};

// Nodes that get a DaemonSet together (operator-behaviour.md section 8.2).
struct DriverPool {
  std::string name;  // "ubuntu24.04", "ubuntu24.04-6.8.0-44-generic", "417.94.202506121500-0"
  OsRelease os = {};
  std::string kernel = {};         // precompiled drivers: as the label has it
  std::string rhcos_version = {};  // OpenShift, unless precompiled
  // All that a node needs to be one of them, beside the operand's own labels.
  std::map<std::string, std::string> node_selector = {};
  std::size_t nodes = 0;

  bool operator==(const DriverPool&) const = default;
};

// A driver as an NVIDIADriver object describes it, for one of its pools.
struct DriverSpec {
  std::string type{api::kDriverTypeGpu};
  api::Driver driver;
  api::Component gds;
  api::Component gdrcopy;
  DriverPool pool;
  // Of the nodes, as the policy has it; "" where it says nothing.
  std::string host_root = {};
  // In place of the driver manager's default image: the one that runs (section 8.5); "": none.
  std::string manager_image = {};
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

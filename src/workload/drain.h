// Which pods leave a node, and which must not: kubectl's rules of a drain, with upstream's options
// (driver-lifecycle.md 3). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::workload {

// Annotation of a pod that stands in a file of its kubelet.
inline constexpr std::string_view kMirrorAnnotation = "kubernetes.io/config.mirror";

struct DrainOptions {
  bool force = false;              // also pods that no controller makes again
  bool delete_empty_dir = false;   // also pods with emptyDir volumes
  bool ignore_daemon_sets = true;  // else a pod of a DaemonSet is a refusal
  // How the two options are called where a person sets them, for the reasons of refusals.
  std::string force_name = "force";
  std::string delete_empty_dir_name = "deleteEmptyDir";
};

// As an upgrade policy says it (gpuPodDeletion, drain).
DrainOptions OptionsOf(const api::PodRemoval& how);

struct PodReference {
  kube::ObjectKey key;
  std::string uid;
  auto operator<=>(const PodReference&) const = default;
};

struct DrainPlan {
  std::vector<PodReference> evict;
  std::vector<std::string> refused;  // "namespace/name would lose an emptyDir volume (...)"
};

// Mirror pods and pods of DaemonSets stay out of both lists. Pods that have ended may always go.
DrainPlan PlanDrain(const std::vector<codec::Json>& pods, const DrainOptions& options);

}  // namespace pitcrew::workload

// What every operand DaemonSet gets, whatever the operand (reference operand-manifests.md section
// 3).
#pragma once

#include "base/result.h"
#include "desired/operand.h"

namespace pitcrew::desired {

// Before the operand's own changes: update strategy, priority class, tolerations, pod security
// context, host root, driver install directory (steps 1 to 3).
base::Status ApplyCommonConfig(Object& daemonset, const Context& context);

// After them: labels and annotations of spec.daemonsets on template and object (steps 5 and 6).
void ApplyCommonMetadata(Object& daemonset, const api::ClusterPolicy& policy);

// --- pieces that operands share ---

// Image, pull policy, pull secrets, resources of all main containers, and args, in that order
// ("STD" of the reference). `container` must exist in the manifest.
base::Status ApplyComponent(Object& daemonset, std::string_view container,
                            const api::Component& component, std::string_view image_variable,
                            const Context& context);

// The DaemonSet of a validator, with its main container customized: what ApplyComponent sets, the
// policy's variables, root, and the network of the host where the policy says so.
base::Result<Object*> ApplyValidator(std::vector<Object>& objects, std::string_view container,
                                     const Context& context);

// Image, pull policy, resources and user of every init container whose name contains "validation".
base::Status ApplyValidationInitContainers(Object& daemonset, const Context& context);

// runtimeClassName where the policy wants one, and the annotation that lets the NRI plugin give
// `annotated_container` all GPUs (empty: no annotation).
void ApplyRuntimeClass(Object& daemonset, const Context& context,
                       std::string_view annotated_container);

// Where the toolkit's folder is when the policy does not say.
inline constexpr std::string_view kDefaultToolkitInstallDir = "/usr/local/nvidia";
// The program that containers with a CDI device start, on the node.
std::string CdiHookPath(const api::ClusterPolicy& policy);

// MIG_STRATEGY and NVIDIA_MIG_MONITOR_DEVICES.
void ApplyMigEnv(Object& container, const api::ClusterPolicy& policy);

// The device plugin's configuration from a ConfigMap: config-manager containers, mounts, volumes;
// without one they are removed. Used by the device plugin, feature discovery and MPS.
base::Status ApplyPluginConfig(Object& daemonset, std::string_view container,
                               const std::optional<codec::Json>& init_resources,
                               const Context& context);

// The container of that name; kInternal when the manifest lacks it.
base::Result<Object*> RequireContainer(Object& daemonset, std::string_view name);
// The first DaemonSet among `objects`; kInternal when there is none.
base::Result<Object*> RequireDaemonSet(std::vector<Object>& objects);

}  // namespace pitcrew::desired

// Rendering a policy over a cluster from files, for golden and unit tests.
#pragma once

#include <string>
#include <vector>

#include "codec/json.h"
#include "desired/render.h"

namespace pitcrew::desired::testing {

// One Ubuntu 22.04 node with a GPU under containerd, no OpenShift, Kubernetes 1.35.
codec::Json PlainCluster();

// Facts from {kubernetesVersion, openshiftVersion, nodes: [Node], configMaps: {name: [keys]},
// secrets: [name], driverToolkit: {version: image}, proxy: {http, https, none, trustedCA},
// toolkits: {name of a DaemonSet: runtime}}.
Facts ReadCluster(const codec::Json& cluster);

// The images that the operator's environment names in these tests.
DefaultImages TestImages();

// A ClusterPolicy with only what the schema requires, and `spec` merged into it.
codec::Json MinimalPolicy(const codec::Json& spec);

// Renders one operand; kind, name and message of an error as {"error": text}.
codec::Json RenderState(const codec::Json& policy, const codec::Json& cluster,
                        std::string_view state);

// The DaemonSet of a state, rendered from MinimalPolicy(spec) over PlainCluster().
codec::Json RenderDaemonSet(std::string_view state, const std::string& spec_yaml,
                            const std::string& cluster_yaml = "{}");
// The error of a state that cannot be rendered; "" when it can.
std::string RenderError(std::string_view state, const std::string& spec_yaml,
                        const std::string& cluster_yaml = "{}");

const codec::Json& ContainerOf(const codec::Json& daemonset, std::string_view name);
bool HasContainer(const codec::Json& daemonset, std::string_view name);
// "NAME=value" (or "NAME<-field") in the order of the manifest.
std::vector<std::string> EnvOf(const codec::Json& container);
// "volume:/path[:ro][:sub=key]" in order.
std::vector<std::string> MountsOf(const codec::Json& container);
inline const codec::Json& PodOf(const codec::Json& daemonset) {
  return daemonset["spec"]["template"]["spec"];
}
// The volume as JSON, or null.
codec::Json VolumeOf(const codec::Json& daemonset, std::string_view name);

}  // namespace pitcrew::desired::testing

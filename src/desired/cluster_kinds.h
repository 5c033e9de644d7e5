// Kinds and objects of a cluster that decide what is deployed, beside the nodes and what operands
// are made of.
#pragma once

#include <string>
#include <string_view>

#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::desired {

inline constexpr kube::ResourceKind kClusterPolicies{"nvidia.com", "v1", "clusterpolicies",
                                                     "ClusterPolicy", false};
inline constexpr kube::ResourceKind kGpuClusters{"nvidia.com", "v1alpha1", "gpuclusters",
                                                 "GPUCluster", false};
inline constexpr kube::ResourceKind kNvidiaDrivers{"nvidia.com", "v1alpha1", "nvidiadrivers",
                                                   "NVIDIADriver", false};
// OpenShift's.
inline constexpr kube::ResourceKind kClusterVersions{"config.openshift.io", "v1", "clusterversions",
                                                     "ClusterVersion", false};
inline constexpr kube::ResourceKind kProxies{"config.openshift.io", "v1", "proxies", "Proxy",
                                             false};
inline constexpr kube::ResourceKind kImageStreams{"image.openshift.io", "v1", "imagestreams",
                                                  "ImageStream"};
// Their objects that the operator reads.
inline const kube::ObjectKey kClusterVersionKey{.namespace_name = "", .name = "version"};
inline const kube::ObjectKey kClusterProxyKey{.namespace_name = "", .name = "cluster"};
inline const kube::ObjectKey kDriverToolkitKey{.namespace_name = "openshift",
                                               .name = "driver-toolkit"};

// Definitions whose coming and going changes the identity.
inline constexpr std::string_view kServiceMonitorDefinition =
    "servicemonitors.monitoring.coreos.com";
inline constexpr std::string_view kPrometheusRuleDefinition =
    "prometheusrules.monitoring.coreos.com";
inline constexpr std::string_view kGpuClusterDefinition = "gpuclusters.nvidia.com";
inline constexpr std::string_view kNvidiaDriverDefinition = "nvidiadrivers.nvidia.com";
// Why nothing is done for a ClusterPolicy beside a GPUCluster (operator-behaviour.md section 4).
std::string GpuClusterConflict(std::string_view cluster, std::string_view policy);

// A CustomResourceDefinition that the server serves.
bool IsEstablished(const codec::Json& definition);

}  // namespace pitcrew::desired

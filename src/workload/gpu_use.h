// Which pods use a node's GPUs: by the resources that they ask for, and by claims of dynamic
// resource allocation (driver-lifecycle.md 2.8).
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/resource.h"

namespace pitcrew::workload {

// ResourceClaims, newest version first: Kubernetes 1.34 has v1, servers before it only older ones.
inline constexpr std::array kClaimVersions = {
    kube::ResourceKind{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"},
    kube::ResourceKind{"resource.k8s.io", "v1beta2", "resourceclaims", "ResourceClaim"},
    kube::ResourceKind{"resource.k8s.io", "v1beta1", "resourceclaims", "ResourceClaim"}};

// Succeeded or Failed: what the pod had is free again.
bool HasEnded(const codec::Json& pod);
// The kubelet says so of the pod as a whole, of one that is to go as well.
bool IsReady(const codec::Json& pod);

// Whether a container of the pod, an init container too, has a limit or request of a resource that
// is meant: "nvidia.com/gpu".
bool AsksFor(const codec::Json& pod,
             const std::function<bool(std::string_view resource)>& is_meant);

// Whether a container of the pod, an init container too, has a limit or request of nvidia.com/gpu*
// or nvidia.com/mig-*.
bool AsksForGpu(const codec::Json& pod);

// Names of the ResourceClaims of a pod, in its own namespace: those that it names, and those that
// were made for it from templates. A claim that is not made yet has no name.
std::vector<std::string> ClaimNames(const codec::Json& pod);

// Whether a ResourceClaim has an allocated device of NVIDIA's GPU driver (gpu.nvidia.com). Claims
// with admin access watch a device and do not use it.
bool HoldsGpu(const codec::Json& claim);

// Whether a pod that has not ended uses a GPU: asks for one, or holds one by a claim. A claim that
// does not exist holds nothing; one that cannot be read counts as holding a GPU, and is logged.
using ClaimReader = std::function<base::Observed<codec::Json>(const kube::ObjectKey& claim)>;
bool UsesGpu(const codec::Json& pod, const ClaimReader& read);

// The same for whoever can ask again: kUnavailable "ClaimNotRead" where that hangs on a claim about
// which the API server gave no answer just now (kCancelled on stop). One that may not be read
// counts as holding a GPU here, too. CheckGpuClaim looks at claims alone.
base::Result<bool> CheckGpuClaim(const codec::Json& pod, const ClaimReader& read);
base::Result<bool> CheckGpuClaim(kube::Client& client, const codec::Json& pod,
                                 const io::StopToken& stop);
base::Result<bool> CheckGpuUse(kube::Client& client, const codec::Json& pod,
                               const io::StopToken& stop);

}  // namespace pitcrew::workload

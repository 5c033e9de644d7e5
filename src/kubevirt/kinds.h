// Kinds of KubeVirt and of HyperConverged, the operator that owns KubeVirt on OpenShift
// (virtualisation-and-olm.md sections 1.1, 1.2 and 2).
#pragma once

#include <optional>
#include <string_view>

#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::kubevirt {

inline constexpr kube::ResourceKind kKubeVirts{"kubevirt.io", "v1", "kubevirts", "KubeVirt"};
inline constexpr kube::ResourceKind kVirtualMachines{"kubevirt.io", "v1", "virtualmachines",
                                                     "VirtualMachine"};
inline constexpr kube::ResourceKind kInstances{"kubevirt.io", "v1", "virtualmachineinstances",
                                               "VirtualMachineInstance"};
inline constexpr kube::ResourceKind kHyperConvergedsV1Beta1{"hco.kubevirt.io", "v1beta1",
                                                            "hyperconvergeds", "HyperConverged"};
inline constexpr kube::ResourceKind kHyperConvergedsV1{"hco.kubevirt.io", "v1", "hyperconvergeds",
                                                       "HyperConverged"};

inline constexpr std::string_view kKubeVirtDefinition = "kubevirts.kubevirt.io";
inline constexpr std::string_view kVirtualMachineDefinition = "virtualmachines.kubevirt.io";
inline constexpr std::string_view kInstanceDefinition = "virtualmachineinstances.kubevirt.io";
inline constexpr std::string_view kHyperConvergedDefinition = "hyperconvergeds.hco.kubevirt.io";

// The objects that say which devices virtual machines may have: where, and in which words.
enum class Form { kKubeVirt, kHyperConvergedV1Beta1, kHyperConvergedV1 };

const kube::ResourceKind& KindOf(Form form);
// Nothing for an object of any other kind or version.
std::optional<Form> FormOf(const codec::Json& object);

// The version in which a HyperConverged definition is to be read and written: the one that is
// stored, so that nothing is converted; else another that is served. None where it serves neither
// of those that are known.
std::optional<Form> FormOfDefinition(const codec::Json& definition);

}  // namespace pitcrew::kubevirt

// What the NRI plugin gives to a container, and which runtimes it can serve
// (container-toolkit.md 4.17, runtimes-and-distributions.md 9.7 and 9.8). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/toolkit/options.h"
#include "nri/plugin.h"

namespace pitcrew::node::toolkit {

struct RefusedDevice {
  std::string name;
  std::string why;
};

struct NriDevices {
  std::vector<std::string> names{};  // of CDI devices, each once
  std::vector<RefusedDevice> refused{};
};

// By the first of the pod's annotations nvidia.cdi.k8s.io/container.NAME, nvidia.cdi.k8s.io/pod and
// nvidia.cdi.k8s.io. Names are trimmed and checked one by one; only pods of the operator's
// namespace and of NriOptions::more_namespaces are served: anybody can write an annotation.
NriDevices ChooseNriDevices(const nri::Container& container, const NriOptions& options);

// Why this runtime would drop CDI devices without a word; nullopt where it does not, or is unknown.
std::optional<std::string> WhyNriCannotServe(const nri::Runtime& runtime);
// containerd 1.7 takes CDI devices only where its configuration says so.
bool NeedsCdiSwitchedOn(const nri::Runtime& runtime);

}  // namespace pitcrew::node::toolkit

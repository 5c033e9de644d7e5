// Container runtimes of GPU nodes, and which of them each DaemonSet of the container toolkit is
// for. Where all nodes have the same one, there is one DaemonSet, as upstream makes it (reference
// operator-behaviour.md section 4.1, operand-manifests.md section 7). In a mixed cluster the main
// runtime keeps that DaemonSet and each other one gets its own.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::desired {

enum class Runtime { kContainerd, kCrio, kDocker };
inline constexpr Runtime kRuntimes[] = {Runtime::kContainerd, Runtime::kCrio, Runtime::kDocker};
// "containerd", "crio" or "docker", as the toolkit's RUNTIME names it.
std::string_view ToString(Runtime runtime);
// The reverse; none for any other text.
std::optional<Runtime> RuntimeNamed(std::string_view name);
// From status.nodeInfo.containerRuntimeVersion, for example "containerd://2.2.0"; kInvalid for a
// runtime that is not known.
base::Result<Runtime> RuntimeOf(std::string_view container_runtime_version);

// Runtimes of the GPU nodes, and how many nodes have each.
using RuntimeCounts = std::map<Runtime, std::size_t>;

// DaemonSets of the toolkit that stand in the cluster.
struct StandingToolkits {
  std::optional<Runtime> main;  // what the one with upstream's name is for
  std::set<Runtime> others;

  bool operator==(const StandingToolkits&) const = default;
};

inline constexpr std::string_view kToolkitDaemonSet = "nvidia-container-toolkit-daemonset";
// "nvidia-container-toolkit-daemonset-crio": of a runtime that is not the main one.
std::string ToolkitDaemonSetName(Runtime runtime);
// The runtime that a DaemonSet of the toolkit is for, by its variable RUNTIME; none for another
// DaemonSet.
std::optional<Runtime> ToolkitRuntimeOf(const codec::Json& daemonset);
// Takes the DaemonSet of that name into account; ignores one that is not the toolkit's.
void AddStandingToolkit(StandingToolkits& standing, std::string_view name, Runtime runtime);

// The runtime whose toolkit has upstream's name, and that rules between operands and runtimes mean.
// A DaemonSet that stands keeps its runtime as long as any node has it or the others' DaemonSets
// stand beside it, so that no running toolkit is restarted because a node of another runtime came
// or went. Otherwise upstream's choice: containerd when any node has it or none has a known one,
// else the one that most nodes have.
Runtime MainRuntime(const RuntimeCounts& nodes, const StandingToolkits& standing);

}  // namespace pitcrew::desired

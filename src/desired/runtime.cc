#include "desired/runtime.h"

#include <fmt/format.h>

#include <algorithm>

namespace pitcrew::desired {

std::string_view ToString(Runtime runtime) {
  switch (runtime) {
    case Runtime::kContainerd:
      return "containerd";
    case Runtime::kCrio:
      return "crio";
    case Runtime::kDocker:
      return "docker";
  }
  return "";
}

std::optional<Runtime> RuntimeNamed(std::string_view name) {
  for (const Runtime runtime : kRuntimes) {
    if (name == ToString(runtime)) return runtime;
  }
  return std::nullopt;
}

base::Result<Runtime> RuntimeOf(std::string_view container_runtime_version) {
  if (container_runtime_version.starts_with("docker")) return Runtime::kDocker;
  if (container_runtime_version.starts_with("containerd")) return Runtime::kContainerd;
  if (container_runtime_version.starts_with("cri-o")) return Runtime::kCrio;
  return base::Fail(
      base::Invalid("UnknownContainerRuntime",
                    fmt::format("container runtime \"{}\" is none of containerd, cri-o and docker",
                                container_runtime_version)));
}

std::string ToolkitDaemonSetName(Runtime runtime) {
  return fmt::format("{}-{}", kToolkitDaemonSet, ToString(runtime));
}

std::optional<Runtime> ToolkitRuntimeOf(const codec::Json& daemonset) {
  if (!codec::FindString(daemonset, {"metadata", "name"}).starts_with(kToolkitDaemonSet)) {
    return std::nullopt;
  }
  const codec::Json* containers =
      codec::Find(daemonset, {"spec", "template", "spec", "containers"});
  if (containers == nullptr || !containers->is_array()) return std::nullopt;
  for (const codec::Json& container : *containers) {
    const codec::Json* env = codec::Find(container, {"env"});
    if (env == nullptr || !env->is_array()) continue;
    for (const codec::Json& variable : *env) {
      if (codec::FindString(variable, {"name"}) != "RUNTIME") continue;
      return RuntimeNamed(codec::FindString(variable, {"value"}));
    }
  }
  return std::nullopt;
}

void AddStandingToolkit(StandingToolkits& standing, std::string_view name, Runtime runtime) {
  if (name == kToolkitDaemonSet) {
    standing.main = runtime;
  } else if (name == ToolkitDaemonSetName(runtime)) {
    standing.others.insert(runtime);
  }
}

Runtime MainRuntime(const RuntimeCounts& nodes, const StandingToolkits& standing) {
  if (standing.main) {
    const auto has_node = [&](Runtime runtime) { return nodes.contains(runtime); };
    if (nodes.empty() || has_node(*standing.main) ||
        std::ranges::any_of(standing.others, has_node)) {
      return *standing.main;
    }
  }
  if (nodes.empty() || nodes.contains(Runtime::kContainerd)) return Runtime::kContainerd;
  return std::ranges::max_element(nodes, {}, [](const auto& entry) { return entry.second; })->first;
}

}  // namespace pitcrew::desired

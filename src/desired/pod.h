// Edits of pod templates. Lists of Kubernetes (containers, env, mounts, volumes) are keyed by name;
// these functions keep their order and never add a name twice.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "desired/manifest.h"

namespace pitcrew::desired {

// Parts of a DaemonSet; made when absent. Borrowed from `daemonset`.
Object& PodTemplate(Object& daemonset);
Object& PodSpec(Object& daemonset);
std::string NameOf(const Object& object);

// Init and main containers, init containers first. Borrowed.
std::vector<Object*> AllContainers(Object& daemonset);
std::vector<Object*> MainContainers(Object& daemonset);
std::vector<Object*> InitContainers(Object& daemonset);
// Null when there is none of that name. Borrowed; valid until the list changes.
Object* FindContainer(Object& daemonset, std::string_view name);
void RemoveContainer(Object& daemonset, std::string_view name);

// --- containers ---
// Overwrites the variable in place, or appends it. A value that came from a field is replaced:
// both together would be refused by the API server.
void SetEnv(Object& container, std::string_view name, std::string_view value);
void SetEnv(Object& container, const std::vector<api::EnvVar>& variables);
std::optional<std::string> FindEnv(const Object& container, std::string_view name);

struct Mount {
  std::string volume;
  std::string path;
  bool read_only = false;
  std::string sub_path = {};
};
void AddMount(Object& container, const Mount& mount);
// The mount of that volume, or null.
Object* FindMount(Object& container, std::string_view volume);

// A list that is not empty replaces the container's arguments.
void SetArgs(Object& container, const std::vector<std::string>& args);
// Requests and limits are replaced whole when the policy has the block.
void SetResources(Object& container, const std::optional<codec::Json>& resources);
void RunAsRoot(Object& container);
// Applies the members of `probe` that are not zero to container[`member`] ("startupProbe"). False,
// and nothing changed, when the container has no such probe.
bool OverrideProbe(Object& container, std::string_view member, const api::Probe& probe);

// --- pods ---
void AddPullSecrets(Object& daemonset, const std::vector<std::string>& secrets);
// With "ClusterFirstWithHostNet" for DNS.
void UseHostNetwork(Object& daemonset);
void SetPodAnnotation(Object& daemonset, std::string_view key, std::string_view value);
void SetNodeSelector(Object& daemonset, std::string_view key, std::string_view value);
void SetLabel(Object& object, std::string_view key, std::string_view value);
void SetAnnotation(Object& object, std::string_view key, std::string_view value);

// --- volumes ---
Object* FindVolume(Object& daemonset, std::string_view name);
// Replaces a volume of the same name.
void SetVolume(Object& daemonset, Object volume);
// `type` empty: no check by the kubelet.
Object HostPathVolume(std::string_view name, std::string_view path, std::string_view type = "");
// One item per key, each under its own name.
Object ConfigMapVolume(std::string_view name, std::string_view config_map,
                       const std::vector<std::string>& keys);
// Changes the path of a host path volume; false when there is no such volume.
bool SetHostPath(Object& daemonset, std::string_view volume, std::string_view path);

}  // namespace pitcrew::desired

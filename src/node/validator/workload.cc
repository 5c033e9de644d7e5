#include "node/validator/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "api/labels.h"
#include "api/validator_names.h"
#include "base/log.h"
#include "base/strings.h"
#include "kube/await.h"
#include "kube/projection.h"

namespace pitcrew::node::validator {
namespace {

constexpr std::chrono::minutes kPodTimeout{5};

bool IsMig(std::string_view resource) { return resource.starts_with(api::kMigResourcePrefix); }

// nvidia.com/gpu, nvidia.com/gpu.shared and renamed ones such as nvidia.com/gpu-h100.
bool IsGpu(std::string_view resource) {
  constexpr std::string_view kGpu = "nvidia.com/gpu";
  if (!resource.starts_with(kGpu)) return false;
  const auto rest = resource.substr(kGpu.size());
  return rest.empty() || rest.front() == '.' || rest.front() == '-';
}

bool IsAtLeastOne(const std::string& quantity) {
  const auto count = base::ParseInteger(quantity);
  return count && *count >= 1;
}

codec::Json InitContainer(Workload workload, const Options& options, const std::string& resource) {
  codec::Json container = {
      {"name", workload == Workload::kCuda ? "cuda-validation" : "plugin-validation"},
      {"image", options.image},
      {"command", {"sh", "-c"}},
      {"args", {"vectorAdd"}}};
  if (workload == Workload::kCuda) {
    container["env"] =
        codec::Json::array({codec::Json{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}}});
    container["securityContext"] = {{"privileged", true}};
  } else {
    container["securityContext"] = {{"allowPrivilegeEscalation", false}};
    container["resources"] = {{"limits", {{resource, 1}}}, {"requests", {{resource, 1}}}};
  }
  return container;
}

codec::Json MainContainer(Workload workload, const Options& options) {
  codec::Json container = {
      {"name", WorkloadName(workload)},
      {"image", options.image},
      {"command", {"sh", "-c"}},
      {"args",
       {workload == Workload::kCuda ? "echo cuda workload validation is successful"
                                    : "echo device-plugin workload validation is successful"}}};
  container["securityContext"] = {{"readOnlyRootFilesystem", true}};
  if (workload == Workload::kCuda) {
    container["securityContext"]["privileged"] = true;
  } else {
    container["securityContext"]["allowPrivilegeEscalation"] = false;
  }
  return container;
}

// What a container status says: "cuda-validation: ImagePullBackOff: Back-off pulling image".
std::string DescribeContainer(const codec::Json& status) {
  const auto name = codec::FindString(status, {"name"});
  const auto waiting = codec::FindString(status, {"state", "waiting", "reason"});
  const auto describe_end = [&](const codec::Json& end) {
    const auto message = codec::FindString(end, {"message"});
    return fmt::format("{}: ended with exit status {}{}{}", name, end.value("exitCode", -1),
                       message.empty() ? "" : ": ", message);
  };
  const auto* ended = codec::Find(status, {"state", "terminated"});
  if (ended == nullptr) ended = codec::Find(status, {"lastState", "terminated"});
  if (ended != nullptr && ended->is_object() && ended->value("exitCode", 0) != 0) {
    return describe_end(*ended);
  }
  if (waiting.empty() || waiting == "PodInitializing" || waiting == "ContainerCreating") return "";
  const auto message = codec::FindString(status, {"state", "waiting", "message"});
  return fmt::format("{}: {}{}{}", name, waiting, message.empty() ? "" : ": ", message);
}

// Whether every container of the list in the specification has a status that tells its good end.
bool AllEndedWell(const codec::Json& pod, std::string_view containers, std::string_view list) {
  const auto* wanted = codec::Find(pod, {"spec", containers});
  const auto* statuses = codec::Find(pod, {"status", list});
  if (wanted == nullptr || statuses == nullptr || wanted->size() != statuses->size()) return false;
  return std::all_of(statuses->begin(), statuses->end(), [](const codec::Json& status) {
    const auto* end = codec::Find(status, {"state", "terminated"});
    return end != nullptr && end->is_object() && end->value("exitCode", -1) == 0;
  });
}

base::Status DeleteEarlierPods(Workload workload, const Options& options, kube::Client& client,
                               const io::StopToken& stop) {
  kube::ListOptions selection;
  selection.label_selector = "app=" + WorkloadName(workload);
  selection.field_selector = "spec.nodeName=" + options.node_name;
  TRY_ASSIGN(const auto pods, client.List(kube::kPods, options.namespace_name, selection, stop));
  for (const auto& pod : pods.items) {
    kube::DeleteOptions at_once;
    at_once.grace_period_seconds = 0;
    const auto deleted = client.Delete(kube::kPods, kube::KeyOf(pod), at_once, stop);
    if (!deleted && deleted.error().code != base::Code::kNotFound) {
      return base::Fail(deleted.error());
    }
  }
  return {};
}

// The pod's end, or what held it up.
base::Status AwaitPod(const std::shared_ptr<kube::Client>& client, const kube::ObjectKey& key,
                      const io::StopToken& stop) {
  kube::InformerOptions selection;
  selection.namespace_name = key.namespace_name;
  selection.field_selector = "metadata.name=" + key.name;
  PodProgress last;
  const auto finished = [&](const kube::Store<PodProgress>& store) -> base::Result<bool> {
    const auto pod = store.Find(key);
    if (pod.is_absent()) {
      return base::Fail(base::Unavailable(
          "WorkloadPodGone", fmt::format("pod {} was deleted before its end", key.ToString())));
    }
    if (pod.is_unknown()) return false;
    const auto& progress = **pod.value();
    if (progress != last) {
      base::LogInfo(
          "The validation pod",
          {{"pod", key.ToString()}, {"phase", progress.phase}, {"detail", progress.detail}});
      last = progress;
    }
    if (progress.phase == "Failed") {
      return base::Fail(base::Unavailable(
          "WorkloadPodFailed", fmt::format("pod {} failed: {}", key.ToString(), progress.detail)));
    }
    return progress.succeeded;
  };
  const base::Status done = kube::Await<PodProgress>(
      client, kube::kPods,
      kube::ProjectJson<PodProgress>(
          [](const codec::Json& pod) -> base::Result<PodProgress> { return ProgressOf(pod); }),
      selection, finished, stop, std::chrono::steady_clock::now() + kPodTimeout);
  if (done || done.error().code != base::Code::kTimeout) return done;
  return base::Fail(base::Error{
      base::Code::kTimeout, "WorkloadPodTimeout",
      fmt::format("gave up waiting for pod {} to be available: phase {}{}{}", key.ToString(),
                  last.phase, last.detail.empty() ? "" : ", ", last.detail)});
}

}  // namespace

std::string WorkloadName(Workload workload) {
  return std::string(workload == Workload::kCuda ? api::kCudaValidator
                                                 : api::kDevicePluginValidator);
}

codec::Json MakeWorkloadPod(Workload workload, const Options& options,
                            const codec::Json& daemon_set, const std::string& resource) {
  const auto name = WorkloadName(workload);
  codec::Json metadata = {{"generateName", name + "-"},
                          {"namespace", options.namespace_name},
                          {"labels", {{"app", name}}}};
  if (workload == Workload::kCuda) {
    metadata["annotations"] = {
        {"nvidia.cdi.k8s.io/container.cuda-validation", "management.nvidia.com/gpu=all"}};
  }
  if (const auto* owners = codec::Find(daemon_set, {"metadata", "ownerReferences"})) {
    metadata["ownerReferences"] = *owners;
  }
  codec::Json spec = {
      {"nodeName", options.node_name},
      {"restartPolicy", "OnFailure"},
      {"serviceAccountName", api::kOperatorValidator},
      {"initContainers", codec::Json::array({InitContainer(workload, options, resource)})},
      {"containers", codec::Json::array({MainContainer(workload, options)})}};
  if (const auto* tolerations =
          codec::Find(daemon_set, {"spec", "template", "spec", "tolerations"})) {
    spec["tolerations"] = *tolerations;
  }
  if (!options.image_pull_policy.empty()) {
    for (const auto* list : {"initContainers", "containers"}) {
      spec[list][0]["imagePullPolicy"] = options.image_pull_policy;
    }
  }
  for (const auto& secret : options.image_pull_secrets) {
    spec["imagePullSecrets"].push_back({{"name", secret}});
  }
  if (!options.runtime_class.empty()) spec["runtimeClassName"] = options.runtime_class;
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}};
}

Resources ResourcesOf(const codec::Json& node, std::string_view part) {
  Resources resources;
  const auto* found = codec::Find(node, {"status", part});
  if (found == nullptr || !found->is_object()) return resources;
  for (const auto& [name, quantity] : found->items()) {
    if (quantity.is_string()) resources[name] = quantity.get<std::string>();
  }
  return resources;
}

std::string ChooseGpuResource(const Resources& resources) {
  for (const auto& wanted : {IsMig, IsGpu}) {
    for (const auto& [name, quantity] : resources) {
      if (wanted(name) && IsAtLeastOne(quantity)) return name;
    }
  }
  return "";
}

PodProgress ProgressOf(const codec::Json& pod) {
  PodProgress progress{codec::FindString(pod, {"metadata", "name"}),
                       codec::FindString(pod, {"status", "phase"}), "", false};
  progress.succeeded = progress.phase == "Succeeded" ||
                       (AllEndedWell(pod, "initContainers", "initContainerStatuses") &&
                        AllEndedWell(pod, "containers", "containerStatuses"));
  std::vector<std::string> details;
  const auto message = codec::FindString(pod, {"status", "message"});
  if (!message.empty()) details.push_back(message);
  for (const auto* list : {"initContainerStatuses", "containerStatuses"}) {
    const auto* statuses = codec::Find(pod, {"status", list});
    if (statuses == nullptr || !statuses->is_array()) continue;
    for (const auto& status : *statuses) {
      if (auto text = DescribeContainer(status); !text.empty()) details.push_back(std::move(text));
    }
  }
  progress.detail = base::Join(details, "; ");
  return progress;
}

base::Status RunWorkload(Workload workload, const Options& options,
                         const std::shared_ptr<kube::Client>& client, const io::StopToken& stop) {
  if (options.image.empty()) {
    return base::Fail(base::Invalid("NoValidatorImage",
                                    "VALIDATOR_IMAGE is not set: the pod would have no image"));
  }
  auto daemon_set = client->Get(
      kube::kDaemonSets, {options.namespace_name, std::string(api::kOperatorValidator)}, stop);
  if (!daemon_set) {
    return base::Fail(
        daemon_set.error().Within("unable to retrieve the operator validator daemonset"));
  }
  std::string resource;
  if (workload == Workload::kPlugin) {
    TRY_ASSIGN(const auto node, client->Get(kube::kNodes, {"", options.node_name}, stop));
    resource = ChooseGpuResource(ResourcesOf(node, "allocatable"));
    if (resource.empty()) {
      return base::Fail(
          base::Unavailable("NoAllocatableGpu", "unable to find any allocatable GPU resource"));
    }
  }
  TRY(DeleteEarlierPods(workload, options, *client, stop));
  TRY_ASSIGN(const auto pod,
             client->Create(kube::kPods, MakeWorkloadPod(workload, options, *daemon_set, resource),
                            {}, stop));
  return AwaitPod(client, kube::KeyOf(pod), stop);
}

}  // namespace pitcrew::node::validator

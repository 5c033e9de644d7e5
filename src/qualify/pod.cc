#include "qualify/pod.h"

#include <fmt/format.h>

namespace pitcrew::qualify {
namespace {

using codec::Json;

constexpr std::string_view kContainer = "qualification";
// The validator's container that proves that containers get the node's GPUs.
constexpr std::string_view kPattern = "toolkit-validation";

const Json* FindContainer(const Json& daemon_set) {
  const Json* containers = codec::Find(daemon_set, {"spec", "template", "spec", "initContainers"});
  if (containers == nullptr || !containers->is_array()) return nullptr;
  for (const auto& container : *containers) {
    if (codec::FindString(container, {"name"}) == kPattern) return &container;
  }
  return nullptr;
}

Json Arguments(const PodRequest& request) {
  Json arguments = {"qualify", "--tell"};
  if (!request.memory.empty()) arguments.push_back("--memory=" + request.memory);
  if (!request.deadline.empty()) arguments.push_back("--deadline=" + request.deadline);
  if (request.even_if_used) arguments.push_back("--even-if-used");
  return arguments;
}

Json MakeContainer(const PodRequest& request, const Json& pattern) {
  Json container = {{"name", kContainer},
                    {"image", codec::FindString(pattern, {"image"})},
                    {"command", {"nvidia-validator"}},
                    {"args", Arguments(request)},
                    {"env", Json::array({{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}},
                                         {{"name", "NODE_NAME"}, {"value", request.node}}})},
                    // The end of its log says what went wrong.
                    {"terminationMessagePolicy", "FallbackToLogsOnError"}};
  for (const auto* field : {"imagePullPolicy", "securityContext"}) {
    if (const Json* value = codec::Find(pattern, {field})) container[field] = *value;
  }
  return container;
}

std::string DescribeState(const Json& status) {
  if (const Json* end = codec::Find(status, {"state", "terminated"}); end != nullptr) {
    if (end->value("exitCode", 0) == 0) return "";
    return fmt::format("ended with exit status {}: {}", end->value("exitCode", -1),
                       codec::FindString(*end, {"message"}));
  }
  const auto reason = codec::FindString(status, {"state", "waiting", "reason"});
  if (reason.empty() || reason == "ContainerCreating") return "";
  return fmt::format("{}: {}", reason, codec::FindString(status, {"state", "waiting", "message"}));
}

}  // namespace

base::Result<Json> MakePod(const PodRequest& request, const Json& daemon_set) {
  const Json* pattern = FindContainer(daemon_set);
  if (pattern == nullptr) {
    return base::Fail(
        base::Invalid("NotAValidator",
                      fmt::format("DaemonSet {} has no container {}",
                                  codec::FindString(daemon_set, {"metadata", "name"}), kPattern)));
  }
  Json metadata = {{"generateName", std::string(kApp) + "-"},
                   {"namespace", codec::FindString(daemon_set, {"metadata", "namespace"})},
                   {"labels", {{"app", kApp}}},
                   {"annotations",
                    {{"nvidia.cdi.k8s.io/container." + std::string(kContainer),
                      "management.nvidia.com/gpu=all"}}}};
  // It goes with the policy.
  if (const Json* owners = codec::Find(daemon_set, {"metadata", "ownerReferences"})) {
    metadata["ownerReferences"] = *owners;
    for (auto& owner : metadata["ownerReferences"]) owner.erase("controller");
  }
  Json spec = {{"nodeName", request.node},
               {"restartPolicy", "Never"},
               // Somebody chose the node, whatever keeps others from it.
               {"tolerations", Json::array({{{"operator", "Exists"}}})},
               {"containers", Json::array({MakeContainer(request, *pattern)})}};
  for (const auto* field :
       {"serviceAccountName", "runtimeClassName", "priorityClassName", "imagePullSecrets"}) {
    const Json* value = codec::Find(daemon_set, {"spec", "template", "spec", field});
    if (value != nullptr) spec[field] = *value;
  }
  return Json{{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}};
}

Progress ProgressOf(const Json& pod) {
  Progress progress{codec::FindString(pod, {"status", "phase"}),
                    codec::FindString(pod, {"status", "message"})};
  const Json* statuses = codec::Find(pod, {"status", "containerStatuses"});
  if (statuses == nullptr || !statuses->is_array()) return progress;
  for (const auto& status : *statuses) {
    const auto text = DescribeState(status);
    if (!text.empty()) progress.detail += (progress.detail.empty() ? "" : "; ") + text;
  }
  return progress;
}

}  // namespace pitcrew::qualify

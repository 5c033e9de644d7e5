#include "desired/lagging_pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "codec/json_items.h"

namespace pitcrew::desired {
namespace {

using codec::ItemsAt;
using codec::Json;

// What a container's runtime says can be pages long.
constexpr std::size_t kLongestWhy = 240;

bool IsTrue(const Json& object, std::string_view member) {
  const Json* found = codec::Find(object, {member});
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

std::string WithMessage(std::string reason, const std::string& message) {
  if (message.empty()) return reason;
  return reason.empty() ? message : reason + ": " + message;
}

// Status of condition `type`: the condition, or null.
const Json* ConditionOf(const Json& pod, std::string_view type) {
  for (const Json& condition : ItemsAt(pod, {"status", "conditions"})) {
    if (codec::FindString(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

std::string Ended(const Json& terminated) {
  const Json* code = codec::Find(terminated, {"exitCode"});
  return fmt::format("ended with exit code {}",
                     code != nullptr && code->is_number_integer() ? code->get<int>() : -1);
}

// Why a container that is not done is not, from its containerStatus.
std::string WhyNotReady(const Json& status, bool init) {
  if (const Json* waiting = codec::Find(status, {"state", "waiting"})) {
    std::string why = WithMessage(codec::FindString(*waiting, {"reason"}, "waiting"),
                                  codec::FindString(*waiting, {"message"}));
    if (const Json* last = codec::Find(status, {"lastState", "terminated"})) {
      why += "; it " + Ended(*last);
    }
    return why;
  }
  if (const Json* terminated = codec::Find(status, {"state", "terminated"})) {
    return Ended(*terminated);
  }
  if (init) return "has not finished yet";
  const Json* started = codec::Find(status, {"started"});
  return started != nullptr && *started == false
             ? "runs, and its startup probe has not succeeded yet"
             : "runs, and is not ready yet";
}

// The first container that holds the pod up; "" when none is reported.
std::string WhyContainers(const Json& pod) {
  for (const Json& status : ItemsAt(pod, {"status", "initContainerStatuses"})) {
    const Json* code = codec::Find(status, {"state", "terminated", "exitCode"});
    // Sidecars among them run for ever.
    if ((code != nullptr && *code == 0) || IsTrue(status, "ready")) continue;
    return fmt::format("init container {}: {}", codec::FindString(status, {"name"}),
                       WhyNotReady(status, true));
  }
  for (const Json& status : ItemsAt(pod, {"status", "containerStatuses"})) {
    if (IsTrue(status, "ready")) continue;
    return fmt::format("container {}: {}", codec::FindString(status, {"name"}),
                       WhyNotReady(status, false));
  }
  return "";
}

std::string WhyPod(const Json& pod) {
  if (codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr) return "it is being deleted";
  const std::string phase = codec::FindString(pod, {"status", "phase"});
  if (phase == "Failed" || phase == "Succeeded") {
    return WithMessage(codec::FindString(pod, {"status", "reason"}, phase),
                       codec::FindString(pod, {"status", "message"}));
  }
  if (const Json* scheduled = ConditionOf(pod, "PodScheduled");
      scheduled != nullptr && codec::FindString(*scheduled, {"status"}) == "False") {
    return WithMessage(codec::FindString(*scheduled, {"reason"}),
                       codec::FindString(*scheduled, {"message"}));
  }
  if (std::string why = WhyContainers(pod); !why.empty()) return why;
  if (const Json* ready = ConditionOf(pod, "Ready")) {
    const std::string why =
        WithMessage(codec::FindString(*ready, {"reason"}), codec::FindString(*ready, {"message"}));
    if (!why.empty()) return why;
  }
  return "the kubelet has not started it yet";
}

// The DaemonSet controller pins a pod to its node by a match of the node's name.
std::string NodeOf(const Json& pod) {
  if (std::string node = codec::FindString(pod, {"spec", "nodeName"}); !node.empty()) return node;
  for (const Json& term :
       ItemsAt(pod, {"spec", "affinity", "nodeAffinity",
                     "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"})) {
    for (const Json& field : ItemsAt(term, {"matchFields"})) {
      const Json& values = ItemsAt(field, {"values"});
      if (codec::FindString(field, {"key"}) == "metadata.name" && !values.empty() &&
          values[0].is_string()) {
        return values[0].get<std::string>();
      }
    }
  }
  return "";
}

}  // namespace

std::optional<LaggingPod> ReadLaggingPod(const Json& pod) {
  const Json* ready = ConditionOf(pod, "Ready");
  const bool deleting = codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  if (!deleting && ready != nullptr && codec::FindString(*ready, {"status"}) == "True") {
    return std::nullopt;
  }
  std::string why = WhyPod(pod);
  std::ranges::replace(why, '\n', ' ');
  if (why.size() > kLongestWhy) why = why.substr(0, kLongestWhy) + "...";
  return LaggingPod{.name = codec::FindString(pod, {"metadata", "name"}),
                    .node = NodeOf(pod),
                    .why = std::move(why)};
}

bool IsPullTrouble(std::string_view reason) {
  static constexpr std::array<std::string_view, 6> kReasons = {
      "ErrImagePull",      "ImagePullBackOff",  "InvalidImageName",
      "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"};
  return std::ranges::find(kReasons, reason) != kReasons.end();
}

}  // namespace pitcrew::desired

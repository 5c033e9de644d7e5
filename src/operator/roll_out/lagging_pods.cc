#include "operator/lagging_pods.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "kube/ownership.h"
#include "kube/projection.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// What a container's runtime says can be pages long.
constexpr std::size_t kLongestWhy = 240;
// A look reads so much and no more: finding the one pod in 10,000 that is behind is worth the
// reading of some, not of all.
constexpr int kPageSize = 50;
constexpr int kPages = 40;
// Pods that nobody makes (a quota) are not looked for more often than this.
constexpr std::chrono::milliseconds kLongestInterval = std::chrono::minutes(5);
constexpr kube::CallLimits kOneTry{.timeout = std::chrono::seconds(5), .retry = {.attempts = 1}};

bool IsTrue(const Json& object, std::string_view member) {
  const Json* found = codec::Find(object, {member});
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

const Json& Items(const Json& object, std::initializer_list<std::string_view> path) {
  static const Json kNone = Json::array();
  const Json* found = codec::Find(object, path);
  return found != nullptr && found->is_array() ? *found : kNone;
}

std::string WithMessage(std::string reason, const std::string& message) {
  if (message.empty()) return reason;
  return reason.empty() ? message : reason + ": " + message;
}

// Status of condition `type`: the condition, or null.
const Json* ConditionOf(const Json& pod, std::string_view type) {
  for (const Json& condition : Items(pod, {"status", "conditions"})) {
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
  for (const Json& status : Items(pod, {"status", "initContainerStatuses"})) {
    const Json* code = codec::Find(status, {"state", "terminated", "exitCode"});
    // Sidecars among them run for ever.
    if ((code != nullptr && *code == 0) || IsTrue(status, "ready")) continue;
    return fmt::format("init container {}: {}", codec::FindString(status, {"name"}),
                       WhyNotReady(status, true));
  }
  for (const Json& status : Items(pod, {"status", "containerStatuses"})) {
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
       Items(pod, {"spec", "affinity", "nodeAffinity",
                   "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"})) {
    for (const Json& field : Items(term, {"matchFields"})) {
      const Json& values = Items(field, {"values"});
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

std::chrono::milliseconds LookInterval(std::int64_t desired, int in_vain) {
  const std::chrono::milliseconds first(std::clamp<std::int64_t>(desired * 5, 1000, 30000));
  return std::min(first * (1 << std::min(in_vain, 8)), kLongestInterval);
}

LaggingPods::LaggingPods(std::shared_ptr<kube::Client> client, std::string operator_namespace,
                         std::function<void()> changed,
                         std::function<void(std::chrono::nanoseconds)> later)
    : client_(std::move(client)),
      operator_namespace_(std::move(operator_namespace)),
      changed_(std::move(changed)),
      later_(std::move(later)) {}

base::Result<std::optional<LaggingPod>> LaggingPods::Look(const DaemonSetPods& daemonset,
                                                          const io::StopToken& stop) {
  // Pods that have not begun come first: there are few of them in the end, and the server finds
  // them by itself.
  for (const char* phase : {"status.phase!=Running", "status.phase=Running"}) {
    const kube::ListOptions options{.label_selector = daemonset.label_selector,
                                    .field_selector = phase,
                                    .page_size = kPageSize};
    std::string continue_token;
    for (int number = 0; number < kPages; ++number) {
      const auto request =
          kube::ListRequest(kube::kPods, operator_namespace_, options, continue_token);
      TRY_ASSIGN(std::string body, client_->Send(request, kOneTry, stop));
      TRY_ASSIGN(const Json page, codec::ParseJson(body, "list of pods"));
      std::optional<LaggingPod> first;
      for (const Json& pod : Items(page, {"items"})) {
        if (!kube::IsControlledBy(pod, daemonset.uid)) continue;
        auto lagging = ReadLaggingPod(pod);
        if (lagging && (!first || lagging->node < first->node)) first = std::move(lagging);
      }
      if (first) return first;
      continue_token = codec::FindString(page, {"metadata", "continue"});
      if (continue_token.empty()) break;
    }
  }
  return std::nullopt;
}

std::optional<LaggingPod> LaggingPods::Find(const DaemonSetPods& daemonset,
                                            const io::StopToken& stop) {
  Search& search = searches_[daemonset.name];
  if (search.pod != nullptr) {
    const auto known = search.pod->Get(stop);
    if (known.is_present() && *known.value()) return *known.value();
    if (known.is_unknown()) return std::nullopt;
    search.pod.reset();
  }
  const auto now = base::SteadyClock::now();
  const auto interval = LookInterval(daemonset.desired, search.in_vain);
  if (search.at != base::SteadyClock::time_point() && now - search.at < interval) {
    later_(interval - (now - search.at));
    return std::nullopt;
  }
  search.at = now;
  auto found = Look(daemonset, stop);
  if (!found) {
    base::LogWarning("the pods of a DaemonSet cannot be read", found.error(),
                     {{"daemonset", daemonset.name}});
    ++search.in_vain;
    later_(LookInterval(daemonset.desired, search.in_vain));
    return std::nullopt;
  }
  if (!*found) {
    // Its status is late, or pods are still to be made.
    ++search.in_vain;
    later_(LookInterval(daemonset.desired, search.in_vain));
    return std::nullopt;
  }
  search.in_vain = 0;
  search.pod = std::make_unique<NamedObject<std::optional<LaggingPod>>>(
      client_, kube::kPods,
      kube::ObjectKey{.namespace_name = operator_namespace_, .name = (*found)->name},
      kube::ProjectJson<std::optional<LaggingPod>>(
          [](const Json& pod) -> base::Result<std::optional<LaggingPod>> {
            return ReadLaggingPod(pod);
          }),
      changed_);
  return *std::move(found);
}

void LaggingPods::Forget(const std::string& daemonset) { searches_.erase(daemonset); }

void LaggingPods::Keep(const std::set<std::string>& daemonsets) {
  std::erase_if(searches_, [&](const auto& entry) { return !daemonsets.contains(entry.first); });
}

}  // namespace pitcrew::gpu_operator

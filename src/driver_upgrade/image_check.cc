#include "driver_upgrade/image_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"
#include "codec/json_items.h"
#include "desired/lagging_pod.h"
#include "driver_upgrade/pods.h"
#include "kube/ownership.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::ItemsAt;
using codec::Json;

// What Pitcrew's driver container says at its end begins so (driver_container/container.cc).
constexpr std::string_view kPreflight = "preflight: ";
constexpr std::string_view kPreflightGood = "preflight: nothing is missing";
// What a container's runtime says can be pages long.
constexpr std::size_t kLongestMessage = 240;

const Json* DriverContainerOf(const Json& pod_spec) {
  for (const Json& container : ItemsAt(pod_spec, {"containers"})) {
    if (codec::FindString(container, {"name"}) == kDriverContainer) return &container;
  }
  return nullptr;
}

// Of `from` into `into`, where it is there.
void Copy(const Json& from, std::initializer_list<const char*> members, Json& into) {
  for (const char* member : members) {
    if (from.contains(member)) into[member] = from[member];
  }
}

// What the node has of Red Hat's subscription: without it the driver's container would be asked for
// headers without the repositories that it will have.
constexpr std::array<std::string_view, 3> kSubscriptions = {
    "/etc/pki/entitlement", "/etc/yum.repos.d/redhat.repo", "/etc/rhsm"};

// Volumes of the template that are not the node's own folders, by name; and its subscription.
std::set<std::string> OwnVolumes(const Json& pod_spec) {
  std::set<std::string> names;
  for (const Json& volume : ItemsAt(pod_spec, {"volumes"})) {
    const std::string path = codec::FindString(volume, {"hostPath", "path"});
    const bool is_subscription =
        std::ranges::find(kSubscriptions, path) != std::end(kSubscriptions);
    if (!volume.contains("hostPath") || is_subscription) {
      names.insert(codec::FindString(volume, {"name"}));
    }
  }
  return names;
}

// Where a package tool that is asked for headers writes: nothing else of the container can be
// written to.
constexpr const char* kScratchVolume = "image-check-tmp";
constexpr const char* kScratch = "/tmp";

// A container's runtime is to need no driver.
void NeedNoDriver(Json& container) {
  Json& env = container["env"];
  if (!env.is_array()) env = Json::array();
  const bool says_devices = std::ranges::any_of(env, [](const Json& variable) {
    return codec::FindString(variable, {"name"}) == "NVIDIA_VISIBLE_DEVICES";
  });
  if (!says_devices) env.push_back({{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "void"}});
}

Json PreflightOf(const Json& driver, const std::set<std::string>& volumes) {
  Json container = Json::object();
  Copy(driver, {"name", "image", "imagePullPolicy", "env", "envFrom", "securityContext"},
       container);
  // Entrypoints of other images than Pitcrew's answer such a command with their usage, and end.
  container["command"] = {"nvidia-driver"};
  container["args"] = {"preflight", "--report", "/dev/termination-log"};
  container["terminationMessagePath"] = "/dev/termination-log";
  container["securityContext"]["readOnlyRootFilesystem"] = true;
  NeedNoDriver(container);
  for (Json mount : ItemsAt(driver, {"volumeMounts"})) {
    if (!volumes.contains(codec::FindString(mount, {"name"}))) continue;
    mount["readOnly"] = true;
    mount.erase("mountPropagation");
    container["volumeMounts"].push_back(std::move(mount));
  }
  const bool has_scratch = std::ranges::any_of(
      ItemsAt(container, {"volumeMounts"}),
      [](const Json& mount) { return codec::FindString(mount, {"mountPath"}) == kScratch; });
  if (!has_scratch) {
    container["volumeMounts"].push_back({{"name", kScratchVolume}, {"mountPath", kScratch}});
  }
  return container;
}

// It shows that its image can be had, and ends at once. An image without the program does as well:
// what cannot be started has its image.
Json ImageHolderOf(const Json& other) {
  Json container = Json::object();
  Copy(other, {"name", "image", "imagePullPolicy"}, container);
  const Json& command = ItemsAt(other, {"command"});
  const std::string program =
      command.empty() || !command[0].is_string() ? "sh" : command[0].get<std::string>();
  container["command"] = {program};
  const bool shell = program == "sh" || program == "bash";
  container["args"] = shell ? Json::array({"-c", ":"}) : Json::array({"--help"});
  container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                  {"capabilities", {{"drop", {"ALL"}}}},
                                  {"readOnlyRootFilesystem", true}};
  NeedNoDriver(container);
  return container;
}

// One for each image, the driver's first.
Json ContainersOf(const Json& pod_spec, const Json& driver) {
  Json containers = Json::array({PreflightOf(driver, OwnVolumes(pod_spec))});
  std::set<std::string> images = {codec::FindString(driver, {"image"})};
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& other : ItemsAt(pod_spec, {list})) {
      if (images.insert(codec::FindString(other, {"image"})).second) {
        containers.push_back(ImageHolderOf(other));
      }
    }
  }
  return containers;
}

std::optional<base::WallClock::time_point> TimeAt(const Json& object,
                                                  std::initializer_list<std::string_view> path) {
  const auto time = base::ParseRfc3339(codec::FindString(object, path));
  return time ? std::optional(*time) : std::nullopt;
}

std::string OneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  if (text.size() > kLongestMessage) text = text.substr(0, kLongestMessage) + "...";
  return std::string(base::Trim(text));
}

// For these a container waits while its image is fetched, or before.
bool IsBeingMade(std::string_view reason) {
  return reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing";
}

using State = ImageVerdict::State;

ImageVerdict UntilGivenUp(base::WallClock::time_point since, std::chrono::minutes limit,
                          base::WallClock::time_point now, ImageVerdict then) {
  const auto until = since + limit;
  if (now < until) return {.state = State::kUnderWay, .says = {}, .until = until};
  return then;
}

ImageVerdict JudgeWaiting(const ImageCheckPodView& pod, const ImageCheckContainerView& container,
                          base::WallClock::time_point now) {
  if (desired::IsPullTrouble(container.reason)) {
    return {.state = State::kNoImage,
            .says = OneLine(container.message.empty() ? container.reason : container.message),
            .container = container.name,
            .between_tries = container.reason == "ImagePullBackOff"};
  }
  // A ConfigMap or Secret that its environment is to come from.
  if (container.reason == "CreateContainerConfigError") {
    return {
        .state = State::kMissing, .says = OneLine(container.message), .container = container.name};
  }
  // Only what has an image is created and started.
  if (!IsBeingMade(container.reason)) return {.state = State::kGood};
  return UntilGivenUp(pod.created, kUntilFetched, now,
                      {.state = State::kUnknown,
                       .says = fmt::format("container {} of pod {} has not started in {} minutes",
                                           container.name, pod.name, kUntilFetched.count())});
}

ImageVerdict JudgeEnd(const ImageCheckPodView& pod, const ImageCheckContainerView& container) {
  // The kubelet has lost it, with a pod that it sent away: nobody knows whether it ever ran.
  if (container.reason == "ContainerStatusUnknown") {
    return {.state = State::kUnknown,
            .says = fmt::format("pod {} was sent away before it had ended", pod.name)};
  }
  if (!container.message.starts_with(kPreflight) || container.message.starts_with(kPreflightGood)) {
    return {.state = State::kGood};
  }
  return {.state = State::kMissing,
          .says = OneLine(container.message.substr(kPreflight.size())),
          .container = container.name,
          .until = container.since.value_or(pod.created) + kUntilRepeated};
}

ImageVerdict JudgeFailed(const ImageCheckPodView& pod) {
  return {
      .state = State::kUnknown,
      .says = OneLine(fmt::format("pod {} has failed: {} {}", pod.name, pod.reason, pod.message))};
}

ImageVerdict JudgeContainer(const ImageCheckPodView& pod, const ImageCheckContainerView& container,
                            base::WallClock::time_point now) {
  if (container.state == "terminated") return JudgeEnd(pod, container);
  if (container.state == "running") {
    // Whatever it does there, it has its image.
    return UntilGivenUp(container.since.value_or(pod.created), kUntilEnded, now,
                        {.state = State::kGood});
  }
  return pod.phase == "Failed" ? JudgeFailed(pod) : JudgeWaiting(pod, container, now);
}

// What one container says that speaks against the driver is said of the pod; nothing is known
// before all are, and all is well when all are well.
int Weight(State state) {
  switch (state) {
    case State::kNoImage:
      return 4;
    case State::kMissing:
      return 3;
    case State::kUnderWay:
      return 2;
    case State::kUnknown:
      return 1;
    case State::kGood:
      break;
  }
  return 0;
}

void ReadStatuses(const Json& object, ImageCheckPodView& pod) {
  for (const Json& status : ItemsAt(object, {"status", "containerStatuses"})) {
    // The kubelet's order is its own.
    const auto container = std::ranges::find(pod.containers, codec::FindString(status, {"name"}),
                                             &ImageCheckContainerView::name);
    if (container == pod.containers.end()) continue;
    for (const auto& [state, time] : {std::pair("waiting", ""), std::pair("running", "startedAt"),
                                      std::pair("terminated", "finishedAt")}) {
      const Json* found = codec::Find(status, {"state", state});
      if (found == nullptr) continue;
      container->state = state;
      container->reason = codec::FindString(*found, {"reason"});
      container->message = codec::FindString(*found, {"message"});
      container->since = TimeAt(*found, {time});
    }
  }
}

}  // namespace

std::string KindOfNode(const std::function<std::string_view(std::string_view key)>& label) {
  std::string kind;
  for (const std::string_view key :
       {api::kKernelVersionFull, api::kOsReleaseId, api::kOsReleaseVersionId, api::kOsTreeVersion,
        api::kArchitecture}) {
    kind += label(key);
    kind += '\n';
  }
  return kind;
}

std::string ImageCheckName(std::string_view daemonset_uid, std::string_view revision,
                           std::string_view kind_of_node) {
  return fmt::format("{}-{}-{:08x}", kImageCheckApp, revision,
                     base::HashFnv1a32(fmt::format("{}\n{}", daemonset_uid, kind_of_node)));
}

base::Result<Json> ImageCheckPod(const Json& daemonset, const std::string& name,
                                 const std::string& node) {
  static const Json kNone = Json::object();
  const Json* found = codec::Find(daemonset, {"spec", "template", "spec"});
  const Json& from = found == nullptr ? kNone : *found;
  const Json* driver = DriverContainerOf(from);
  if (driver == nullptr) {
    return base::Fail(base::Error{
        base::Code::kNotFound, "NoDriverContainer",
        fmt::format("DaemonSet {} has no container {}",
                    codec::FindString(daemonset, {"metadata", "name"}), kDriverContainer)});
  }
  Json spec = {{"nodeName", node},
               {"restartPolicy", "Never"},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"terminationGracePeriodSeconds", 1},
               {"containers", ContainersOf(from, *driver)}};
  // Not the priority: the kubelet sends other pods away for critical ones.
  Copy(from,
       {"serviceAccountName", "imagePullSecrets", "securityContext", "runtimeClassName",
        "hostNetwork", "dnsPolicy", "dnsConfig", "tolerations"},
       spec);
  for (const char* taint : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    spec["tolerations"].push_back(
        {{"key", taint}, {"operator", "Exists"}, {"effect", "NoExecute"}});
  }
  std::set<std::string> mounted;
  for (const Json& mount : ItemsAt(spec["containers"][0], {"volumeMounts"})) {
    mounted.insert(codec::FindString(mount, {"name"}));
  }
  for (const Json& volume : ItemsAt(from, {"volumes"})) {
    if (mounted.contains(codec::FindString(volume, {"name"}))) spec["volumes"].push_back(volume);
  }
  if (mounted.contains(kScratchVolume)) {
    spec["volumes"].push_back({{"name", kScratchVolume}, {"emptyDir", Json::object()}});
  }
  Json metadata = {{"name", name},
                   {"namespace", codec::FindString(daemonset, {"metadata", "namespace"})},
                   {"labels", {{std::string(api::kAppLabel), kImageCheckApp}}},
                   {"ownerReferences",
                    {{{"apiVersion", "apps/v1"},
                      {"kind", "DaemonSet"},
                      {"name", codec::FindString(daemonset, {"metadata", "name"})},
                      {"uid", codec::FindString(daemonset, {"metadata", "uid"})}}}}};
  return Json{{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", std::move(metadata)},
              {"spec", std::move(spec)}};
}

std::string ImageChooserOf(std::string_view container, bool of_driver_object) {
  if (container == "nvidia-fs-ctr") return "spec.gds";
  if (container == "nvidia-gdrcopy-ctr") return "spec.gdrcopy";
  if (container == kToolkitContainer) return "OpenShift's ImageStream driver-toolkit";
  const std::string driver = of_driver_object ? "spec" : "spec.driver";
  return container == "k8s-driver-manager" ? driver + ".manager" : driver;
}

base::Result<ImageCheckPodView> ReadImageCheckPod(const Json& object) {
  ImageCheckPodView pod{
      .name = codec::FindString(object, {"metadata", "name"}),
      .uid = codec::FindString(object, {"metadata", "uid"}),
      .node = codec::FindString(object, {"spec", "nodeName"}),
      .deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr,
      .gone_by = TimeAt(object, {"metadata", "deletionTimestamp"}),
      .created =
          TimeAt(object, {"metadata", "creationTimestamp"}).value_or(base::WallClock::time_point()),
      .phase = codec::FindString(object, {"status", "phase"}),
      .reason = codec::FindString(object, {"status", "reason"}),
      .message = codec::FindString(object, {"status", "message"})};
  for (const Json& owner : ItemsAt(object, {"metadata", "ownerReferences"})) {
    pod.daemonset = codec::FindString(owner, {"name"});
  }
  for (const Json& container : ItemsAt(object, {"spec", "containers"})) {
    pod.containers.push_back({.name = codec::FindString(container, {"name"}),
                              .image = codec::FindString(container, {"image"})});
  }
  ReadStatuses(object, pod);
  return pod;
}

ImageVerdict JudgeImage(const ImageCheckPodView& pod, base::WallClock::time_point now) {
  if (pod.deleting) {
    return UntilGivenUp(
        pod.gone_by.value_or(pod.created), kUntilEnded, now,
        {.state = State::kUnknown, .says = fmt::format("pod {} does not end", pod.name)});
  }
  const bool seen = std::ranges::any_of(
      pod.containers, [](const auto& container) { return !container.state.empty(); });
  if (!seen) {
    if (pod.phase == "Failed") return JudgeFailed(pod);
    return UntilGivenUp(pod.created, kUntilSeen, now,
                        {.state = State::kUnknown,
                         .says = fmt::format("the kubelet of node {} has said nothing about pod {} "
                                             "in {} minutes",
                                             pod.node, pod.name, kUntilSeen.count())});
  }
  ImageVerdict verdict{.state = State::kGood};
  for (const ImageCheckContainerView& container : pod.containers) {
    ImageVerdict next = JudgeContainer(pod, container, now);
    const bool sooner = next.state == State::kUnderWay && verdict.state == State::kUnderWay &&
                        next.until < verdict.until;
    if (Weight(next.state) > Weight(verdict.state) || sooner) verdict = std::move(next);
  }
  return verdict;
}

std::string TroubleOf(const ImageCheckPodView& pod, const ImageVerdict& verdict) {
  const auto container =
      std::ranges::find(pod.containers, verdict.container, &ImageCheckContainerView::name);
  const std::string image = container == pod.containers.end() ? "" : container->image;
  switch (verdict.state) {
    case State::kNoImage:
      return fmt::format("node {} cannot get the image {} of its new driver: {}", pod.node, image,
                         verdict.says);
    case State::kMissing:
      return fmt::format("the driver of image {} would not come up on node {}: {}", image, pod.node,
                         verdict.says);
    default:
      return "";
  }
}

}  // namespace pitcrew::driver_upgrade

#include "qualify/request.h"

#include <fmt/format.h>

#include <cstdio>

#include "api/validator_names.h"
#include "base/clock.h"
#include "base/strings.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "workload/gpu_use.h"

namespace pitcrew::qualify {
namespace {

using codec::Json;

constexpr std::string_view kFieldManager = "pitcrew-qualify";

kube::ListOptions PodsOfNode(const std::string& node) {
  kube::ListOptions options;
  options.field_selector = "spec.nodeName=" + node;
  return options;
}

base::Result<Json> FindValidator(kube::Client& client, const std::string& name_space,
                                 const io::StopToken& stop) {
  kube::ListOptions called;
  called.field_selector = "metadata.name=" + std::string(api::kOperatorValidator);
  TRY_ASSIGN(const auto found, client.List(kube::kDaemonSets, name_space, called, stop));
  if (found.items.empty()) {
    return base::Fail(base::NotFound(
        "NoValidator",
        fmt::format("there is no DaemonSet {}{}: it gives image and rights to the test",
                    api::kOperatorValidator,
                    name_space.empty() ? "" : " in namespace " + name_space)));
  }
  if (found.items.size() > 1) {
    return base::Fail(base::Invalid(
        "SeveralValidators", fmt::format("there are {} DaemonSets {}; choose one with --namespace",
                                         found.items.size(), api::kOperatorValidator)));
  }
  return found.items.front();
}

// Of earlier qualifications: those that have ended go, one that runs is an obstacle.
base::Status ClearEarlier(kube::Client& client, const PodRequest& request,
                          const std::string& name_space, const io::StopToken& stop) {
  auto selection = PodsOfNode(request.node);
  selection.label_selector = "app=" + std::string(kApp);
  TRY_ASSIGN(const auto pods, client.List(kube::kPods, name_space, selection, stop));
  for (const auto& pod : pods.items) {
    if (!workload::HasEnded(pod)) {
      return base::Fail(base::Error{
          base::Code::kConflict, "AlreadyRunning",
          fmt::format("pod {} qualifies the node already", kube::KeyOf(pod).ToString())});
    }
    const auto deleted = client.Delete(kube::kPods, kube::KeyOf(pod), {}, stop);
    if (!deleted && deleted.error().code != base::Code::kNotFound) {
      return base::Fail(deleted.error());
    }
  }
  return {};
}

// Label and annotation of a Node; null where there is none.
struct Told {
  Json label;
  Json annotation;
};

Told Pending() {
  api::Qualification told;
  told.state = api::QualificationState::kPending;
  told.time = base::FormatRfc3339(base::WallClock::now());
  told.message = "asked for";
  return {ToString(told.state), api::ToText(told)};
}

Told ToldBefore(const Json& node) {
  const Json* label = codec::Find(node, {"metadata", "labels", api::kQualification});
  const Json* annotation = codec::Find(node, {"metadata", "annotations", api::kQualification});
  return {label != nullptr ? *label : Json(), annotation != nullptr ? *annotation : Json()};
}

base::Status Tell(kube::Client& client, const std::string& node, const Told& told,
                  const io::StopToken& stop) {
  const std::string key(api::kQualification);
  const Json patch = {
      {"metadata", {{"labels", {{key, told.label}}}, {"annotations", {{key, told.annotation}}}}}};
  kube::WriteOptions as;
  as.field_manager = kFieldManager;
  TRY(client.Patch(kube::kNodes, {"", node}, kube::PatchType::kMerge, patch, as, stop));
  return {};
}

base::Result<Progress> AwaitEnd(const std::shared_ptr<kube::Client>& client,
                                const kube::ObjectKey& pod, const io::StopToken& stop,
                                base::Deadline deadline) {
  kube::InformerOptions selection;
  selection.namespace_name = pod.namespace_name;
  selection.field_selector = "metadata.name=" + pod.name;
  Progress last;
  const auto ended = [&](const kube::Store<Progress>& store) -> base::Result<bool> {
    const auto found = store.Find(pod);
    if (found.is_absent()) {
      return base::Fail(base::Unavailable(
          "PodGone", fmt::format("pod {} was deleted before its end", pod.ToString())));
    }
    if (found.is_unknown()) return false;
    const Progress& now = **found.value();
    if (now != last) {
      fmt::print(stderr, "pod {}: {}{}{}\n", pod.ToString(), now.phase,
                 now.detail.empty() ? "" : ": ", base::Trim(now.detail));
    }
    last = now;
    return now.ended();
  };
  TRY(kube::Await<Progress>(
      client, kube::kPods,
      kube::ProjectJson<Progress>(
          [](const Json& object) -> base::Result<Progress> { return ProgressOf(object); }),
      selection, ended, stop, deadline));
  return last;
}

}  // namespace

base::Result<std::vector<std::string>> GpuPodsOn(kube::Client& client, const std::string& node,
                                                 const io::StopToken& stop) {
  TRY_ASSIGN(const auto pods, client.List(kube::kPods, "", PodsOfNode(node), stop));
  std::vector<std::string> using_gpus;
  for (const auto& pod : pods.items) {
    TRY_ASSIGN(const bool uses_gpu, workload::CheckGpuUse(client, pod, stop));
    if (uses_gpu) using_gpus.push_back(kube::KeyOf(pod).ToString());
  }
  return using_gpus;
}

base::Result<kube::ObjectKey> Ask(kube::Client& client, const PodRequest& request,
                                  const std::string& name_space, const io::StopToken& stop) {
  const auto node = client.Get(kube::kNodes, {"", request.node}, stop);
  if (!node) return base::Fail(node.error());
  TRY_ASSIGN(const auto validator, FindValidator(client, name_space, stop));
  TRY_ASSIGN(const auto pod, MakePod(request, validator));
  const auto place = codec::FindString(pod, {"metadata", "namespace"});
  TRY(ClearEarlier(client, request, place, stop));
  if (!request.even_if_used) {
    TRY_ASSIGN(const auto pods, GpuPodsOn(client, request.node, stop));
    if (!pods.empty()) {
      return base::Fail(base::Error{
          base::Code::kConflict, "GpuPodsRun",
          fmt::format("pods on {} have GPUs, and tests would disturb them: {}; drain the node, or "
                      "say --even-if-used",
                      request.node, base::Join(pods, ", "))});
    }
  }
  // First the word, which the pod replaces: else an older result could be taken for this one's.
  TRY(Tell(client, request.node, Pending(), stop));
  const auto made = client.Create(kube::kPods, pod, {}, stop);
  if (made) return kube::KeyOf(*made);
  TRY(Tell(client, request.node, ToldBefore(*node), {}));
  return base::Fail(made.error());
}

base::Result<api::Qualification> Follow(const std::shared_ptr<kube::Client>& client,
                                        const std::string& node, const kube::ObjectKey& pod,
                                        const io::StopToken& stop, base::Deadline deadline) {
  TRY_ASSIGN(const auto end, AwaitEnd(client, pod, stop, deadline));
  TRY_ASSIGN(const auto object, client->Get(kube::kNodes, {"", node}, stop));
  const auto annotation =
      codec::FindString(object, {"metadata", "annotations", api::kQualification});
  auto told = api::ParseQualification(annotation);
  if (told && (told->state == api::QualificationState::kPassed ||
               told->state == api::QualificationState::kFailed)) {
    return *std::move(told);
  }
  return base::Fail(base::Unavailable(
      "NotDone",
      fmt::format("pod {} ended without a result: {} {}", pod.ToString(), end.phase, end.detail)));
}

}  // namespace pitcrew::qualify

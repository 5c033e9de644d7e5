// Images that the nodes cannot pull: what nothing else works without, and so what is told first.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/strings.h"
#include "desired/lagging_pod.h"
#include "driver_upgrade/image_check.h"
#include "fleet/cluster_looks.h"
#include "fleet/fields.h"

namespace pitcrew::fleet {
namespace {

// Pods that wait for one image.
struct Waiting {
  const Pod* first = nullptr;
  const Container* container = nullptr;
  std::size_t pods = 0;
  std::set<std::string> nodes;
  std::set<std::string> parts;   // "driver", or the name of the pod's controller
  std::set<std::string> fields;  // of the policy, that choose the image
};

std::string Advice(PullTrouble trouble, const Waiting& waiting) {
  const std::string values =
      waiting.fields.empty()
          ? "repository, image and version of this part in the values of the chart"
          : fmt::format("repository, image and version of spec.{} in ClusterPolicy {{policy}}",
                        base::Join({waiting.fields.begin(), waiting.fields.end()}, ", spec."));
  switch (trouble) {
    case PullTrouble::kNotFound:
      return fmt::format(
          "Correct {}. An image of your own has to be in a registry that the nodes reach, or on "
          "each "
          "of them already.",
          values);
    case PullTrouble::kDenied:
      return "Make a pull secret in namespace {namespace}, and name it in imagePullSecrets beside "
             "repository and image:\n"
             "$ kubectl create secret docker-registry NAME -n {namespace} --docker-server=SERVER "
             "--docker-username=USER";
    case PullTrouble::kOther:
      break;
  }
  return fmt::format(
      "Name server, proxy, certificates and disk space of the nodes are the usual causes; a "
      "cluster "
      "without a way to the registry needs a mirror ({}). Try it on a node: crictl pull {{image}}",
      values);
}

Seen Describe(const Cluster& cluster, const std::string& image, const Waiting& waiting) {
  const std::string message = PullMessage(cluster, *waiting.first, *waiting.container);
  Seen seen{
      .summary = fmt::format("the image {} cannot be pulled: {} of {} {} for it", image,
                             waiting.pods == 1 ? "1 pod" : fmt::format("{} pods", waiting.pods),
                             base::Join({waiting.parts.begin(), waiting.parts.end()}, ", "),
                             waiting.pods == 1 ? "waits" : "wait"),
      .evidence = {{"Pod " + waiting.first->key.ToString(), "container " + waiting.container->name,
                    fmt::format("{}: {}", waiting.container->reason, FirstLine(message)),
                    std::nullopt}},
      .words = {{"image", image}},
      .since = waiting.first->not_ready_since()};
  if (waiting.nodes.size() > 1) {
    seen.evidence.push_back(
        {fmt::format("{} Nodes", waiting.nodes.size()), "",
         FirstLine(base::Join({waiting.nodes.begin(), waiting.nodes.end()}, ", ")), std::nullopt});
  }
  const PullTrouble trouble = PullTroubleOf(*waiting.container, message);
  seen.words["advice"] = Advice(trouble, waiting);
  AddMissingPullSecrets(cluster, *waiting.first, trouble, seen);
  return seen;
}

}  // namespace

bool PullFails(const Container& container) {
  return container.state == "waiting" && desired::IsPullTrouble(container.reason);
}

std::string PullMessage(const Cluster& cluster, const Pod& pod, const Container& container) {
  for (const Event* event : cluster.EventsOf("Pod", pod.key)) {
    // Other containers of the pod may lack theirs.
    if (event->reason == "Failed" && Contains(event->message, "Failed to pull image") &&
        Contains(event->message, container.image)) {
      return event->message;
    }
  }
  return container.message;
}

std::string MissingPullSecrets(const Cluster& cluster, const Pod& pod) {
  for (const Event* event : cluster.EventsOf("Pod", pod.key)) {
    if (event->reason != "FailedToRetrieveImagePullSecret") continue;
    const auto begin = event->message.find('(');
    const auto end = event->message.find(')', begin);
    if (end != std::string::npos) return event->message.substr(begin + 1, end - begin - 1);
  }
  return "";
}

void AddMissingPullSecrets(const Cluster& cluster, const Pod& pod, PullTrouble trouble,
                           Seen& seen) {
  const auto names = MissingPullSecrets(cluster, pod);
  if (names.empty()) return;
  seen.summary += fmt::format("; the kubelet has not got the pull secret {}", names);
  seen.evidence.push_back({"Pod " + pod.key.ToString(), "Event FailedToRetrieveImagePullSecret",
                           "pull secrets: " + names, std::nullopt});
  // A registry that does not answer asks for no key yet. One that says that there is no such image
  // may say so to whoever has none.
  if (trouble == PullTrouble::kOther) return;
  seen.fix = fmt::format(
      "Make the pull secret, or correct its name in imagePullSecrets beside repository and image:\n"
      "$ kubectl create secret docker-registry {} -n {{namespace}} --docker-server=SERVER "
      "--docker-username=USER",
      names.substr(0, names.find(',')));
}

PullTrouble PullTroubleOf(const Container& container, std::string_view message) {
  static constexpr std::array<std::string_view, 4> kNotFound = {"not found", "manifest unknown",
                                                                "does not exist", "notfound"};
  static constexpr std::array<std::string_view, 6> kDenied = {
      "unauthorized", "denied", "authentication required", "401", "403", "forbidden"};
  const std::string words = base::ToLower(message);
  if (container.reason == "InvalidImageName" || ContainsAny(words, kNotFound)) {
    return PullTrouble::kNotFound;
  }
  return ContainsAny(words, kDenied) ? PullTrouble::kDenied : PullTrouble::kOther;
}

std::vector<Seen> look::ImagesMissing(const Cluster& cluster) {
  std::map<std::string, Waiting> by_image;
  for (const auto& [key, pod] : cluster.pods) {
    if (key.name_space != cluster.name_space || pod.ready || pod.deleting) continue;
    // Pods of users may run in this namespace too.
    if (pod.operand == nullptr && !pod.requests.empty()) continue;
    if (pod.app == driver_upgrade::kImageCheckApp) continue;  // driver-upgrade-held
    for (const Container& container : pod.containers) {
      if (!PullFails(container)) continue;
      Waiting& waiting = by_image[container.image];
      if (waiting.first == nullptr) {
        waiting.first = &pod;
        waiting.container = &container;
      }
      ++waiting.pods;
      if (!pod.node.empty()) waiting.nodes.insert(pod.node);
      waiting.parts.emplace(pod.operand != nullptr ? std::string(pod.operand->name)
                            : pod.owner.empty()    ? key.name
                                                   : pod.owner);
      if (pod.operand != nullptr) {
        const std::string field = ImageFieldOf(*pod.operand, container.name);
        if (!field.empty()) waiting.fields.insert(field);
      }
      break;
    }
  }
  std::vector<Seen> all;
  for (const auto& [image, waiting] : by_image) all.push_back(Describe(cluster, image, waiting));
  std::ranges::stable_sort(all, std::ranges::greater(), [&](const Seen& seen) {
    return by_image.at(seen.words.at("image")).pods;
  });
  return all;
}

}  // namespace pitcrew::fleet

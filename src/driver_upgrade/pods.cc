#include "driver_upgrade/pods.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <tuple>

#include "api/labels.h"
#include "codec/json_items.h"
#include "desired/lagging_pod.h"
#include "driver_upgrade/succession.h"
#include "kube/ownership.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::ItemsAt;
using codec::Json;

constexpr std::int64_t kMostRestarts = 10;

bool IsReady(const Json& container_status) {
  const Json* ready = codec::Find(container_status, {"ready"});
  return ready != nullptr && *ready == true;
}

bool RunsReady(const Json& pod) {
  const Json& containers = ItemsAt(pod, {"status", "containerStatuses"});
  return codec::FindString(pod, {"status", "phase"}) == "Running" && !containers.empty() &&
         std::ranges::all_of(containers, IsReady);
}

bool IsDeleting(const Json& pod) {
  return codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
}

bool IsFailing(const Json& pod) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const Json& status : ItemsAt(pod, {"status", list})) {
      const Json* restarts = codec::Find(status, {"restartCount"});
      if (!IsReady(status) && restarts != nullptr && restarts->is_number_integer() &&
          restarts->get<std::int64_t>() > kMostRestarts) {
        return true;
      }
    }
  }
  return false;
}

void ReadMissingImage(const Json& object, DriverPod& pod) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const Json& status : ItemsAt(object, {"status", list})) {
      if (!desired::IsPullTrouble(codec::FindString(status, {"state", "waiting", "reason"}))) {
        continue;
      }
      pod.missing_image = codec::FindString(status, {"image"});
      pod.missing_image_of = codec::FindString(status, {"name"});
      return;
    }
  }
}

// The first variable of that name that is not empty, of init containers before the others.
std::string DigestOf(const Json& pod_spec) {
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : ItemsAt(pod_spec, {list})) {
      for (const Json& variable : ItemsAt(container, {"env"})) {
        if (codec::FindString(variable, {"name"}) != "DRIVER_CONFIG_DIGEST") continue;
        if (auto value = codec::FindString(variable, {"value"}); !value.empty()) return value;
      }
    }
  }
  return "";
}

std::string DigestBelow(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* spec = codec::Find(object, path);
  return spec == nullptr ? "" : DigestOf(*spec);
}

// The DaemonSet controller says for which node a pod is by an affinity to the node's name.
std::string TargetOf(const Json& pod) {
  for (const Json& term :
       ItemsAt(pod, {"spec", "affinity", "nodeAffinity",
                     "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"})) {
    for (const Json& field : ItemsAt(term, {"matchFields"})) {
      const Json& values = ItemsAt(field, {"values"});
      if (codec::FindString(field, {"key"}) == "metadata.name" && values.size() == 1 &&
          values[0].is_string()) {
        return values[0].get<std::string>();
      }
    }
  }
  return "";
}

}  // namespace

bool KeepsDriver(std::string_view digest_before, const DriverDaemonSet& after) {
  return !after.precompiled && !digest_before.empty() && after.digest == digest_before;
}

base::Result<DriverDaemonSet> ReadDriverDaemonSet(const Json& object) {
  DriverDaemonSet daemonset{
      .name = codec::FindString(object, {"metadata", "name"}),
      .uid = codec::FindString(object, {"metadata", "uid"}),
      .digest = DigestBelow(object, {"spec", "template", "spec"}),
      .precompiled =
          codec::FindString(object, {"metadata", "labels", api::kPrecompiled}) == "true"};
  if (const Json* spec = codec::Find(object, {"spec", "template", "spec"})) {
    daemonset.configuration = DriverConfigurationOf(*spec);
  }
  return daemonset;
}

base::Result<Revision> ReadRevision(const Json& object) {
  Revision revision{.owner_uid = "",
                    .hash = codec::FindString(object, {"metadata", "labels", kRevisionHash})};
  const auto owner = kube::ControllerOf(object);
  if (owner) revision.owner_uid = owner->uid;
  if (revision.hash.empty() && owner) {
    // Its name is the owner's name and the hash.
    const std::string name = codec::FindString(object, {"metadata", "name"});
    if (name.starts_with(owner->name + "-")) revision.hash = name.substr(owner->name.size() + 1);
  }
  revision.digest = DigestBelow(object, {"data", "spec", "template", "spec"});
  const Json* number = codec::Find(object, {"revision"});
  if (number != nullptr && number->is_number_integer())
    revision.number = number->get<std::int64_t>();
  return revision;
}

base::Result<DriverPod> ReadDriverPod(const Json& object) {
  DriverPod pod{.name = codec::FindString(object, {"metadata", "name"}),
                .uid = codec::FindString(object, {"metadata", "uid"}),
                .node = codec::FindString(object, {"spec", "nodeName"}),
                .waits_for = "",
                .owner_uid = "",
                .revision = codec::FindString(object, {"metadata", "labels", kRevisionHash}),
                .digest = DigestBelow(object, {"spec"}),
                .former_parameters = codec::FindString(object, {"metadata", "annotations",
                                                                kFormerParameters}) == "true",
                .deleting = IsDeleting(object),
                .ready = RunsReady(object),
                .failing = IsFailing(object)};
  ReadMissingImage(object, pod);
  const Json& owners = ItemsAt(object, {"metadata", "ownerReferences"});
  if (!owners.empty()) pod.owner_uid = codec::FindString(owners.front(), {"uid"});
  if (pod.node.empty()) pod.waits_for = TargetOf(object);
  if (const Json* spec = codec::Find(object, {"spec"}))
    pod.configuration = DriverConfigurationOf(*spec);
  return pod;
}

base::Result<ValidatorPod> ReadValidatorPod(const Json& object) {
  return ValidatorPod{.node = codec::FindString(object, {"spec", "nodeName"}),
                      .ready = RunsReady(object) && !IsDeleting(object)};
}

void Templates::Add(const DriverDaemonSet& daemonset) {
  by_uid_[daemonset.uid].daemonset = daemonset;
}

void Templates::Add(const Revision& revision) {
  const auto found = by_uid_.find(revision.owner_uid);
  if (found == by_uid_.end() || revision.hash.empty()) return;
  auto& newest = found->second.revision;
  if (!newest || newest->number < revision.number) newest = revision;
}

Sync Templates::SyncOf(const DriverPod& pod) const {
  if (pod.owner_uid.empty()) return Sync::kOrphaned;
  const std::string newest = NewestOf(pod);
  if (newest.empty()) return Sync::kUnknown;
  return pod.revision == newest ? Sync::kInSync : Sync::kOutdated;
}

std::string Templates::NewestOf(const DriverPod& pod) const {
  const auto found = by_uid_.find(pod.owner_uid);
  if (found == by_uid_.end() || !found->second.revision) return "";
  const auto& [daemonset, revision] = found->second;
  const bool is_current = revision->digest.empty() || revision->digest == daemonset.digest;
  return is_current ? revision->hash : "";
}

bool Templates::RestartsOnly(const DriverPod& pod) const {
  const auto found = by_uid_.find(pod.owner_uid);
  return found != by_uid_.end() && KeepsDriver(pod.digest, found->second.daemonset);
}

Succession Templates::SuccessionOf(const DriverPod& pod, const DriverPod* waiting) const {
  if (waiting == nullptr || SyncOf(pod) != Sync::kOrphaned) return Succession::kNone;
  const auto found = by_uid_.find(waiting->owner_uid);
  // Without a revision the DaemonSet controller has not looked at it yet.
  if (found == by_uid_.end() || !found->second.revision) return Succession::kNone;
  const bool same = !pod.former_parameters && pod.configuration != 0 &&
                    pod.configuration == found->second.daemonset.configuration;
  return same ? Succession::kSame : Succession::kOther;
}

std::string Templates::DaemonSetOf(const DriverPod& pod) const {
  const auto found = by_uid_.find(pod.owner_uid);
  return found == by_uid_.end() ? "" : found->second.daemonset.name;
}

bool Templates::Has(std::string_view daemonset_uid) const {
  return by_uid_.contains(daemonset_uid);
}

const DriverPod* ChoosePod(const std::vector<std::shared_ptr<const DriverPod>>& pods) {
  const auto rank = [](const std::shared_ptr<const DriverPod>& pod) {
    return std::tuple(pod->owner_uid.empty(), pod->deleting, pod->name);
  };
  const auto first = std::ranges::min_element(pods, {}, rank);
  return first == pods.end() ? nullptr : first->get();
}

}  // namespace pitcrew::driver_upgrade

#include "support_upgrade.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "api/labels.h"
#include "base/clock.h"
#include "base/strings.h"

namespace pitcrew::gpu_operator::testing {
namespace {

constexpr kube::ResourceKind kBudgets{"policy", "v1", "poddisruptionbudgets",
                                      "PodDisruptionBudget"};

Json OwnedBy(const char* kind, const std::string& name, const std::string& uid) {
  return Json::array({{{"apiVersion", "apps/v1"},
                       {"kind", kind},
                       {"name", name},
                       {"uid", uid},
                       {"controller", true}}});
}

std::string UidOf(const Json& object) { return codec::FindString(object, {"metadata", "uid"}); }
std::string NameOf(const Json& object) { return codec::FindString(object, {"metadata", "name"}); }

std::string VersionOf(const Json& object) {
  return codec::FindString(object, {"metadata", "resourceVersion"});
}

// Of its first owner; "" for none.
std::string OwnerOf(const Json& object) {
  const Json* owners = codec::Find(object, {"metadata", "ownerReferences"});
  return owners == nullptr || owners->empty() ? "" : codec::FindString((*owners)[0], {"uid"});
}

bool IsGoing(const Json& object) {
  return codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
}

// Whether `labels` has all of `wanted`.
bool Matches(const Json& wanted, const Json& labels) {
  for (const auto& [key, value] : wanted.items()) {
    // Whether operands are wanted on a node at all is not what these tests are about.
    if (!key.starts_with("nvidia.com/gpu.deploy.") && labels.value(key, "") != value) return false;
  }
  return true;
}

}  // namespace

void UpgradeTest::SetUp() {
  OperatorTest::SetUp();
  Create(kube::kServiceAccounts, {{"metadata", {{"name", "default"}, {"namespace", name_space_}}}});
}

std::string UpgradeTest::AddNode(const std::string& name) {
  // Pods of other tests name their nodes too.
  nodes_.push_back(name_space_ + "-" + name);
  CreateGpuNode(nodes_.back());
  return nodes_.back();
}

void UpgradeTest::CreateUpgradePolicy(const std::string& upgrade_policy_yaml) {
  CreatePolicy("cluster-policy",
               "driver: {repository: nvcr.io/nvidia, image: driver, version: '580.1.2', "
               "upgradePolicy: {autoUpgrade: true}}");
  MergeSpec("cluster-policy", "driver: {upgradePolicy: " + upgrade_policy_yaml + "}");
}

void UpgradeTest::ChangeDriver(const std::string& version) {
  MergeSpec("cluster-policy", "driver: {version: '" + version + "'}");
  AwaitTemplateWith(version);
}

void UpgradeTest::AwaitTemplateWith(const std::string& text, const std::string& owner) {
  EXPECT_TRUE(Eventually([&] {
    return std::ranges::any_of(DriverDaemonSets(), [&](const Json& daemonset) {
      return daemonset["metadata"]["ownerReferences"][0]["name"] == owner &&
             daemonset["spec"]["template"].dump().find(text) != std::string::npos;
    });
  })) << owner
      << " has no DaemonSet with " << text;
}

std::vector<Json> UpgradeTest::DriverDaemonSets() const {
  const auto listed =
      client_->List(kube::kDaemonSets, name_space_,
                    {.label_selector = "app.kubernetes.io/component=nvidia-driver"});
  return listed ? listed->items : std::vector<Json>();
}

void UpgradeTest::ChangeTemplateOnly() {
  MergeSpec("cluster-policy", "daemonsets: {annotations: {example.com/team: a}}");
  AwaitTemplateWith("example.com/team");
}

std::string UpgradeTest::PlayRevision(const Json& daemonset) {
  const Json& pod_template = daemonset["spec"]["template"];
  const std::string hash = fmt::format("{:x}", std::hash<std::string>{}(pod_template.dump()));
  // One of a DaemonSet that was deleted and made again is another one's.
  const ObjectKey key =
      Own(fmt::format("{}-{}-{}", NameOf(daemonset), hash, UidOf(daemonset).substr(0, 8)));
  const Json& number = daemonset["metadata"]["generation"];
  if (const auto standing = client_->Get(driver_upgrade::kControllerRevisions, key)) {
    // One that was set back is the newest again.
    if ((*standing)["revision"] != number && standing_template_[UidOf(daemonset)] != hash) {
      Merge(driver_upgrade::kControllerRevisions, key, {{"revision", number}});
    }
    standing_template_[UidOf(daemonset)] = hash;
    return hash;
  }
  standing_template_[UidOf(daemonset)] = hash;
  Json labels = pod_template["metadata"]["labels"];
  labels["controller-revision-hash"] = hash;
  Create(driver_upgrade::kControllerRevisions,
         {{"metadata",
           {{"name", key.name},
            {"namespace", name_space_},
            {"labels", labels},
            {"ownerReferences", OwnedBy("DaemonSet", NameOf(daemonset), UidOf(daemonset))}}},
          {"data", {{"spec", {{"template", pod_template}}}}},
          {"revision", number}});
  return hash;
}

void UpgradeTest::CreatePod(const std::string& name, const std::string& node, const Json& metadata,
                            const Json& container, const Json& spec) {
  Json pod = {{"metadata", metadata}, {"spec", spec}};
  pod["metadata"]["name"] = name;
  pod["metadata"]["namespace"] = name_space_;
  if (!node.empty()) pod["spec"]["nodeName"] = node;
  // There is no kubelet that would end it.
  pod["spec"]["terminationGracePeriodSeconds"] = 0;
  if (!pod["spec"].contains("containers")) {
    pod["spec"]["containers"] = Json::array({container});
    pod["spec"]["containers"][0]["name"] = "c";
    pod["spec"]["containers"][0]["image"] = "i";
  }
  Create(kube::kPods, pod);
}

void UpgradeTest::SetReady(const Json& pod, bool ready) {
  const Json* statuses = codec::Find(pod, {"status", "containerStatuses"});
  if (statuses != nullptr && !statuses->empty() && (*statuses)[0]["ready"] == ready) return;
  const auto merged = client_->Patch(
      kube::kPods, kube::KeyOf(pod), kube::PatchType::kMerge,
      {{"status",
        {{"phase", "Running"},
         {"containerStatuses", Json::array({{{"name", "c"},
                                             {"image", "i"},
                                             {"imageID", ""},
                                             {"ready", ready},
                                             {"restartCount", ready ? 0 : 11}}})},
         {"conditions",
          Json::array({{{"type", "Ready"}, {"status", ready ? "True" : "False"}}})}}}},
      {.field_manager = "test", .subresource = "status"});
  // The operator may have deleted it in the meantime.
  ASSERT_TRUE(merged || merged.error().code == base::Code::kNotFound) << merged.error().ToString();
}

void UpgradeTest::SetWithoutImage(const Json& pod) {
  const Json status = {
      {"name", pod["spec"]["containers"][0]["name"]},
      {"image", pod["spec"]["containers"][0]["image"]},
      {"imageID", ""},
      {"ready", false},
      {"restartCount", 0},
      {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "manifest unknown"}}}}}};
  const auto merged = client_->Patch(
      kube::kPods, kube::KeyOf(pod), kube::PatchType::kMerge,
      {{"status", {{"phase", "Pending"}, {"containerStatuses", Json::array({status})}}}},
      {.field_manager = "test", .subresource = "status"});
  ASSERT_TRUE(merged || merged.error().code == base::Code::kNotFound) << merged.error().ToString();
}

bool UpgradeTest::TakeAwayIfGoing(const Json& pod) {
  if (!IsGoing(pod)) return false;
  const auto gone = client_->Delete(kube::kPods, kube::KeyOf(pod), {.grace_period_seconds = 0});
  EXPECT_TRUE(gone || gone.error().code == base::Code::kNotFound) << gone.error().ToString();
  return true;
}

void UpgradeTest::PlayImageCheck(const Json& pod) {
  const std::string node = codec::FindString(pod, {"spec", "nodeName"});
  if (TakeAwayIfGoing(pod)) return;
  if (no_answers_.contains(node)) return;
  if (codec::FindString(pod, {"status", "phase"}) != "Pending") return;
  if (no_image_.contains(node)) {
    SetWithoutImage(pod);
    return;
  }
  const auto said = preflights_.find(node);
  Json statuses = Json::array();
  bool all = true;
  for (const Json& container : pod["spec"]["containers"]) {
    const bool is_driver = container["name"] == "nvidia-driver-ctr";
    const Json ended = {{"exitCode", 1},
                        {"finishedAt", base::FormatRfc3339(base::WallClock::now())},
                        {"message", is_driver && said != preflights_.end() ? said->second : ""}};
    const Json waits = {{"reason", "ErrImagePull"}, {"message", "manifest unknown"}};
    const bool bad = !bad_image_.empty() && container["image"].dump().contains(bad_image_);
    all = all && !bad;
    statuses.push_back({{"name", container["name"]},
                        {"image", container["image"]},
                        {"imageID", bad ? "" : "i"},
                        {"ready", false},
                        {"restartCount", 0},
                        {"state", bad ? Json{{"waiting", waits}} : Json{{"terminated", ended}}}});
  }
  const auto merged = client_->Patch(
      kube::kPods, kube::KeyOf(pod), kube::PatchType::kMerge,
      {{"status", {{"phase", all ? "Failed" : "Pending"}, {"containerStatuses", statuses}}}},
      {.field_manager = "test", .subresource = "status"});
  ASSERT_TRUE(merged || merged.error().code == base::Code::kNotFound) << merged.error().ToString();
}

std::vector<std::string> UpgradeTest::ImageChecks() const {
  const auto pods =
      client_->List(kube::kPods, name_space_, {.label_selector = "app=nvidia-driver-image-check"});
  std::vector<std::string> nodes;
  for (const Json& pod : pods ? pods->items : std::vector<Json>()) {
    nodes.push_back(codec::FindString(pod, {"spec", "nodeName"}));
  }
  return nodes;
}

void UpgradeTest::PlayGarbageCollector() {
  for (const Json& daemonset : DriverDaemonSets()) {
    if (!IsGoing(daemonset)) continue;
    FreeRevisions(daemonset);
    if (frees_only_revisions_) continue;
    const auto pods = client_->List(kube::kPods, name_space_);
    ASSERT_TRUE(pods);
    for (const Json& pod : pods->items) {
      if (OwnerOf(pod) != UidOf(daemonset)) continue;
      Merge(kube::kPods, kube::KeyOf(pod), {{"metadata", {{"ownerReferences", nullptr}}}});
    }
    Merge(kube::kDaemonSets, kube::KeyOf(daemonset), {{"metadata", {{"finalizers", nullptr}}}});
  }
}

void UpgradeTest::EndDependents() {
  // In this order: an owner that is made in between is not missed.
  const auto pods = client_->List(kube::kPods, name_space_,
                                  {.label_selector = "app.kubernetes.io/component=nvidia-driver"});
  ASSERT_TRUE(pods);
  const auto daemonsets = DriverDaemonSets();
  for (const Json& pod : pods->items) {
    const std::string owner = OwnerOf(pod);
    if (owner.empty() || std::ranges::find(daemonsets, owner, UidOf) != daemonsets.end()) continue;
    const auto deleted = client_->Delete(
        kube::kPods, kube::KeyOf(pod),
        {.uid = UidOf(pod), .resource_version = VersionOf(pod), .grace_period_seconds = 0});
    ASSERT_TRUE(deleted || deleted.error().code == base::Code::kNotFound ||
                deleted.error().code == base::Code::kConflict)
        << deleted.error().ToString();
  }
}

bool UpgradeTest::EndPodOfOthers(const std::string& node) {
  const auto object = client_->Get(kube::kNodes, Cluster(node));
  const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
  if (!object || !pod) return false;
  for (const Json& daemonset : DriverDaemonSets()) {
    const bool has_it = OwnerOf(*pod).empty()
                            ? Matches(daemonset["spec"]["selector"]["matchLabels"],
                                      (*pod)["metadata"].value("labels", Json::object()))
                            : OwnerOf(*pod) == UidOf(daemonset);
    if (!has_it || IsGoing(daemonset) ||
        Matches(daemonset["spec"]["template"]["spec"]["nodeSelector"],
                (*object)["metadata"]["labels"])) {
      continue;
    }
    const auto deleted = client_->Delete(kube::kPods, kube::KeyOf(*pod),
                                         {.uid = UidOf(*pod), .grace_period_seconds = 0});
    EXPECT_TRUE(deleted || deleted.error().code == base::Code::kNotFound)
        << deleted.error().ToString();
    return true;
  }
  return false;
}

void UpgradeTest::PlayNode(const std::string& node) {
  if (EndPodOfOthers(node)) return;
  for (const Json& daemonset : DaemonSetsFor(node)) PlayDriver(daemonset, node);
}

void UpgradeTest::FreeRevisions(const Json& daemonset) {
  auto revisions = client_->List(driver_upgrade::kControllerRevisions, name_space_);
  ASSERT_TRUE(revisions);
  std::erase_if(revisions->items,
                [&](const Json& revision) { return OwnerOf(revision) != UidOf(daemonset); });
  const auto newest = std::ranges::max_element(
      revisions->items, {}, [](const Json& revision) { return revision["revision"].get<int>(); });
  if (newest == revisions->items.end()) return;
  Merge(driver_upgrade::kControllerRevisions, kube::KeyOf(*newest),
        {{"metadata", {{"ownerReferences", nullptr}}}});
}

void UpgradeTest::EndWaiting(const std::string& node) {
  const auto deleted = client_->Delete(kube::kPods, Own("waiting-" + node));
  ASSERT_TRUE(deleted || deleted.error().code == base::Code::kNotFound);
}

void UpgradeTest::PlayDriver(const Json& daemonset, const std::string& node) {
  const std::string hash = PlayRevision(daemonset);
  const Json& pod_template = daemonset["spec"]["template"];
  Json metadata = {{"labels", pod_template["metadata"]["labels"]},
                   {"ownerReferences", OwnedBy("DaemonSet", NameOf(daemonset), UidOf(daemonset))}};
  metadata["labels"]["controller-revision-hash"] = hash;
  Json spec = Json::object();
  for (const char* member : {"initContainers", "containers", "volumes"}) {
    if (pod_template["spec"].contains(member)) spec[member] = pod_template["spec"][member];
  }
  const std::string name = "driver-" + node;
  const std::string waiting = "waiting-" + node;
  const auto pod = client_->Get(kube::kPods, Own(name));
  if (!pod) {
    ASSERT_EQ(pod.error().code, base::Code::kNotFound) << pod.error().ToString();
    if (no_pods_.contains(node)) return;
    EndWaiting(node);
    CreatePod(name, node, metadata, {}, spec);
    return;
  }
  if (TakeAwayIfGoing(*pod)) return;
  if (OwnerOf(*pod) == UidOf(daemonset)) {
    const Json* statuses = codec::Find(*pod, {"status", "containerStatuses"});
    const bool runs = statuses != nullptr && !statuses->empty() && (*statuses)[0]["ready"] == true;
    if (no_image_.contains(node) && !runs) {
      SetWithoutImage(*pod);
      return;
    }
    SetReady(*pod, !bad_drivers_.contains(node));
    return;
  }
  if (OwnerOf(*pod).empty() && Matches(daemonset["spec"]["selector"]["matchLabels"],
                                       (*pod)["metadata"].value("labels", Json::object()))) {
    Merge(kube::kPods, Own(name),
          {{"metadata", {{"ownerReferences", metadata["ownerReferences"]}}}});
    EndWaiting(node);
    return;
  }
  // Two of them on one node are kept apart: the scheduler lets the new one wait.
  const auto waits = client_->Get(kube::kPods, Own(waiting));
  if (waits && OwnerOf(*waits) == UidOf(daemonset)) return;
  EndWaiting(node);
  spec["affinity"] = *codec::ParseYaml(
      "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
      "[{matchFields: [{key: metadata.name, operator: In, values: [" +
      node + "]}]}]}}");
  CreatePod(waiting, "", metadata, {}, spec);
}

void UpgradeTest::Play() {
  // A request that was cancelled may have used a budget up and deleted nothing: the disruption
  // controller gives it back.
  for (const auto& [app, disruptions] : budgets_) {
    if (disruptions > 0 && Exists(kube::kPods, Own(app))) SetBudget(app, disruptions);
  }
  PlayGarbageCollector();
  EndDependents();
  const auto checks =
      client_->List(kube::kPods, name_space_, {.label_selector = "app=nvidia-driver-image-check"});
  ASSERT_TRUE(checks);
  for (const Json& pod : checks->items) PlayImageCheck(pod);
  for (const std::string& node : nodes_) {
    PlayNode(node);
    const std::string validator = "validator-" + node;
    if (!Exists(kube::kPods, Own(validator))) {
      CreatePod(validator, node,
                {{"labels", {{"app", "nvidia-operator-validator"}}},
                 {"ownerReferences", OwnedBy("DaemonSet", "validator", "v")}},
                Json::object());
    }
    const auto pod = client_->Get(kube::kPods, Own(validator));
    ASSERT_TRUE(pod) << pod.error().ToString();
    SetReady(*pod, !bad_validators_.contains(node));
  }
}

std::vector<Json> UpgradeTest::DaemonSetsFor(const std::string& node) const {
  const auto object = client_->Get(kube::kNodes, Cluster(node));
  if (!object) return {};
  auto daemonsets = DriverDaemonSets();
  std::erase_if(daemonsets, [&](const Json& daemonset) {
    const Json& wanted = daemonset["spec"]["template"]["spec"]["nodeSelector"];
    return IsGoing(daemonset) || !Matches(wanted, (*object)["metadata"]["labels"]);
  });
  return daemonsets;
}

std::optional<Json> UpgradeTest::DaemonSetFor(const std::string& node) const {
  const auto daemonsets = DaemonSetsFor(node);
  return daemonsets.empty() ? std::nullopt : std::optional(daemonsets.front());
}

std::string UpgradeTest::DriverOf(const std::string& node) const {
  const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
  std::string text = pod ? fmt::format("its driver's pod: {} status {}", (*pod)["metadata"].dump(),
                                       pod->value("status", Json()).dump())
                         : pod.error().message;
  for (const Json& daemonset : DriverDaemonSets()) {
    text += fmt::format("; DaemonSet {} generation {}", NameOf(daemonset),
                        daemonset["metadata"]["generation"].dump());
  }
  const auto revisions = client_->List(driver_upgrade::kControllerRevisions, name_space_);
  for (const Json& revision : revisions ? revisions->items : std::vector<Json>()) {
    text += fmt::format("; revision {} {}", NameOf(revision), revision["revision"].dump());
  }
  return text;
}

bool UpgradeTest::Reaches(const std::string& node, const std::string& state) {
  const bool reached = Eventually([&] {
    Play();
    // That it was done before an upgrade which the operator has not seen yet does not count.
    return StateOf(node) == state && (state != "upgrade-done" || HasNewestDriver(node));
  });
  EXPECT_TRUE(reached) << node << " is " << StateOf(node) << ", not " << state << "; "
                       << DriverOf(node);
  return reached;
}

bool UpgradeTest::HasNewestDriver(const std::string& node) {
  const auto daemonset = DaemonSetFor(node);
  if (!daemonset) return false;
  const std::string hash = PlayRevision(*daemonset);
  const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
  return pod && OwnerOf(*pod) == UidOf(*daemonset) &&
         codec::FindString(*pod, {"metadata", "labels", "controller-revision-hash"}) == hash;
}

bool UpgradeTest::Settles() {
  return Eventually([&] {
    Play();
    return std::ranges::all_of(nodes_, [&](const std::string& node) {
      return StateOf(node) == "upgrade-done" && HasNewestDriver(node);
    });
  });
}

void UpgradeTest::CreateGpuPod(const std::string& name, const std::string& node, bool controlled) {
  Json metadata = {{"labels", {{"app", name}}}};
  if (controlled) metadata["ownerReferences"] = OwnedBy("ReplicaSet", "set", "r");
  CreatePod(name, node, metadata, {{"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}});
  Merge(kube::kPods, Own(name),
        {{"status",
          {{"phase", "Running"},
           {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}},
        "status");
}

void UpgradeTest::Allow(const std::string& app, int disruptions) {
  if (!Exists(kBudgets, Own(app))) {
    Create(kBudgets,
           {{"metadata", {{"name", app}, {"namespace", name_space_}}},
            {"spec", {{"maxUnavailable", 1}, {"selector", {{"matchLabels", {{"app", app}}}}}}}});
  }
  budgets_[app] = disruptions;
  SetBudget(app, disruptions);
}

void UpgradeTest::SetBudget(const std::string& app, int disruptions) {
  Merge(kBudgets, Own(app),
        {{"status",
          {{"observedGeneration", 1},
           {"disruptedPods", nullptr},
           {"disruptionsAllowed", disruptions},
           {"currentHealthy", 1},
           {"desiredHealthy", std::max(0, 1 - disruptions)},
           {"expectedPods", 1}}}},
        "status");
}

void UpgradeTest::SetNode(const std::string& node, const Json& patch) {
  Merge(kube::kNodes, Cluster(node), patch);
}

}  // namespace pitcrew::gpu_operator::testing

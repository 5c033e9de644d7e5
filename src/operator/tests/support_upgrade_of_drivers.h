// The same for the drivers of NVIDIADriver objects.
#pragma once

#include <string>

#include "api/labels.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {

class UpgradeOfDriversTest : public UpgradeTest {
 protected:
  // A node that is labelled pool=POOL.
  std::string AddNodeOf(const std::string& name, const std::string& pool) {
    const std::string node = AddNode(name);
    SetNode(node, {{"metadata", {{"labels", {{"pool", pool}}}}}});
    return node;
  }
  void CreateDriverFor(const std::string& pool, const std::string& upgrade_policy_yaml) {
    CreateDriver(
        pool, "{nodeSelector: {pool: " + pool + "}, upgradePolicy: " + upgrade_policy_yaml + "}");
  }
  void ChangeDriverOf(const std::string& driver, const std::string& version) {
    Merge(desired::kNvidiaDrivers, Cluster(driver), {{"spec", {{"version", version}}}});
    AwaitTemplateWith(version, driver);
  }
  void Annotate(const std::string& driver, std::string_view key, const Json& value) {
    Merge(desired::kNvidiaDrivers, Cluster(driver),
          {{"metadata", {{"annotations", {{std::string(key), value}}}}}});
  }
  [[nodiscard]] std::string UidOfDriverPod(const std::string& node) const {
    const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
    return pod ? codec::FindString(*pod, {"metadata", "uid"}) : "";
  }
  [[nodiscard]] std::string OwnerOfDriverPod(const std::string& node) const {
    const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
    const Json* owners = pod ? codec::Find(*pod, {"metadata", "ownerReferences"}) : nullptr;
    return owners == nullptr ? "" : codec::FindString((*owners)[0], {"name"});
  }
  // Until then what Settles() looks at is still the former DaemonSet.
  [[nodiscard]] bool GoesTo(const std::string& node, const std::string& owner) {
    return Eventually([&] {
      Play();
      return OwnerOfDriverPod(node).starts_with(owner);
    });
  }
  [[nodiscard]] std::string UpgradeEnabled(const std::string& node) const {
    const auto object = client_->Get(kube::kNodes, Cluster(node));
    return object ? codec::FindString(*object,
                                      {"metadata", "annotations", api::kUpgradeEnabledAnnotation})
                  : "";
  }
  // Whether the ClusterPolicy is not ready because of the nodes of drivers, in upstream's words.
  [[nodiscard]] bool PolicySaysIncomplete(bool incomplete) {
    const bool reached = Eventually([&] {
      Play();
      const bool says = Condition("cluster-policy", "Error")
                            .find(
                                "; NVIDIADriver upgrade has not completed; one or more "
                                "NVIDIADriver-owned Nodes are marked pending, in-progress, or "
                                "failed") != std::string::npos;
      return says == incomplete && (!says || State("cluster-policy") == "notReady");
    });
    EXPECT_TRUE(reached) << Condition("cluster-policy", "Error");
    return reached;
  }
  [[nodiscard]] std::string UpgradeReady(const std::string& driver) const {
    return Condition(driver, "DriverUpgradeReady", desired::kNvidiaDrivers);
  }
};

}  // namespace pitcrew::gpu_operator::testing

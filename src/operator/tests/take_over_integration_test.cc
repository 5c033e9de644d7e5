// The operator takes over what upstream's made. The objects here are our own, made
// and changed as upstream makes and changes them (operator-behaviour.md sections 6 and 14): create
// and update calls under its manager's name, no inventory label, a hash of its own. With upstream's
// operator itself: tests/differential/take_over.py.
#include "operator/roll_out/take_over.h"

#include <gmock/gmock.h>

#include <mutex>
#include <vector>

#include "kube/resource.h"
#include "loopback/scripted_server.h"

#include "desired/predecessor.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::IsEmpty;

const kube::WriteOptions kUpstream{.field_manager = "gpu-operator", .subresource = {}};

class TakeOverTest : public OperatorTest {
 protected:
  // Runs our operator until the policy is ready, then makes its objects upstream's.
  void InstallUpstream(const std::string& spec) {
    CreateGpuNode("gpu-1");
    CreatePolicy("cluster-policy", spec);
    {
      const RunningOperator running(name_space_);
      ASSERT_TRUE(ReachesReady("cluster-policy"));
    }
    const World world(client_, name_space_, ClusterIdentity{});
    for (const auto& entry : world.inventory.kinds()) {
      const auto listed = client_->List(*entry.kind, entry.kind->namespaced ? name_space_ : "",
                                        {.label_selector = "nvidia.com/gpu-operator.state"});
      ASSERT_TRUE(listed) << listed.error().ToString();
      for (const Json& object : listed->items) MakeUpstreams(*entry.kind, object);
    }
  }

  void MakeUpstreams(const kube::ResourceKind& kind, Json object) {
    ASSERT_TRUE(client_->Delete(kind, kube::KeyOf(object)));
    Json& metadata = object["metadata"];
    for (const char* member :
         {"uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"}) {
      metadata.erase(member);
    }
    object.erase("status");
    metadata["labels"].erase("nvidia.com/gpu-operator.state");
    metadata["annotations"]["nvidia.com/last-applied-hash"] = "upstream";
    metadata["annotations"]["orphan"] = "annotation";
    const auto created = client_->Create(kind, object, kUpstream);
    ASSERT_TRUE(created) << created.error().ToString();
    kinds_[kind.plural] = &kind;
  }

  [[nodiscard]] std::int64_t Generation(const std::string& daemonset) const {
    const auto object = client_->Get(kube::kDaemonSets, Own(daemonset));
    return object ? (*object)["metadata"]["generation"].get<std::int64_t>() : -1;
  }

  // The stored status is that of the operator before, so this one is asked.
  [[nodiscard]] bool IsContent(const RunningOperator& running) {
    return Eventually([&] {
      FinishRollouts();
      return running.Value("gpu_operator_reconciliation_status") == 1;
    });
  }

  // What of the namespace still has fields of upstream's manager or a trace of its own.
  [[nodiscard]] std::vector<std::string> NotTakenOver() const {
    std::vector<std::string> names;
    for (const auto& [plural, kind] : kinds_) {
      const auto listed = client_->List(*kind, kind->namespaced ? name_space_ : "");
      for (const Json& object : listed ? listed->items : std::vector<Json>{}) {
        const bool orphan = codec::Find(object, {"metadata", "annotations", "orphan"}) != nullptr;
        if (orphan || desired::TakenOverFields(object)) {
          names.push_back(std::string(plural) + "/" + kube::KeyOf(object).name);
        }
      }
    }
    return names;
  }

  std::map<std::string_view, const kube::ResourceKind*> kinds_;
};

TEST_F(TakeOverTest, NothingOfUpstreamsIsLeftAndEqualDaemonSetsAreNotTouched) {
  InstallUpstream("{}");
  // What upstream once set from a policy, and the policy does not say any more.
  auto plugin = client_->Get(kube::kDaemonSets, Own("nvidia-device-plugin-daemonset"));
  ASSERT_TRUE(plugin);
  Json& pod = (*plugin)["spec"]["template"]["spec"];
  pod["hostNetwork"] = true;
  pod["containers"][0]["env"].push_back({{"name", "ORPHAN"}, {"value", "1"}});
  ASSERT_TRUE(client_->Update(kube::kDaemonSets, *plugin, kUpstream));
  const std::int64_t driver = Generation("nvidia-driver-daemonset");
  const std::int64_t toolkit = Generation("nvidia-container-toolkit-daemonset");

  RunningOperator running(name_space_);
  ASSERT_TRUE(IsContent(running));
  EXPECT_THAT(NotTakenOver(), IsEmpty());
  // Equal pod templates: the pods of OnDelete and RollingUpdate alike stay.
  EXPECT_EQ(Generation("nvidia-driver-daemonset"), driver);
  EXPECT_EQ(Generation("nvidia-container-toolkit-daemonset"), toolkit);
  plugin = client_->Get(kube::kDaemonSets, Own("nvidia-device-plugin-daemonset"));
  ASSERT_TRUE(plugin);
  EXPECT_EQ(codec::Find(*plugin, {"spec", "template", "spec", "hostNetwork"}), nullptr);
  EXPECT_THAT(
      desired::testing::EnvOf(desired::testing::ContainerOf(*plugin, "nvidia-device-plugin")),
      ::testing::Not(::testing::Contains("ORPHAN=1")));
  // One change, not one per request.
  EXPECT_EQ(Generation("nvidia-device-plugin-daemonset"), 3);
  running.Stop();

  RunningOperator again(name_space_);
  ASSERT_TRUE(IsContent(again));
  again.Stop();
  EXPECT_EQ(again.writes(), 0U);
}

// operator-behaviour.md #26 over upstream's leftovers: only what the policy owns by a known name.
TEST_F(TakeOverTest, LeftoversOfDisabledOperandsGoAndOthersStay) {
  RecordProperty("holds", "operator-behaviour.md #26");
  RecordProperty("holds", "operator-behaviour.md #26");
  InstallUpstream("{}");
  const auto policy = client_->Get(desired::kClusterPolicies, Cluster("cluster-policy"));
  ASSERT_TRUE(policy);
  const Json owner = {{"apiVersion", desired::kClusterPolicies.api_version()},
                      {"kind", desired::kClusterPolicies.kind},
                      {"name", "cluster-policy"},
                      {"uid", codec::FindString(*policy, {"metadata", "uid"})},
                      {"controller", true}};
  const Json mine = {
      {"metadata",
       {{"name", "mine"}, {"namespace", name_space_}, {"ownerReferences", Json::array({owner})}}}};
  Create(kube::kConfigMaps, mine);
  Create(kube::kServiceAccounts,
         {{"metadata", {{"name", "nvidia-vfio-manager"}, {"namespace", name_space_}}}});
  MergeSpec("cluster-policy", "{gfd: {enabled: false}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(IsContent(running));
  EXPECT_FALSE(Exists(kube::kDaemonSets, Own("gpu-feature-discovery")));
  EXPECT_FALSE(Exists(kube::kServiceAccounts, Own("nvidia-gpu-feature-discovery")));
  EXPECT_FALSE(Exists(kube::kClusterRoles, Cluster("nvidia-gpu-feature-discovery")));
  // The policy's, under a name that is nobody's; and a known name that is not the policy's.
  EXPECT_TRUE(Exists(kube::kConfigMaps, Own("mine")));
  EXPECT_TRUE(Exists(kube::kServiceAccounts, Own("nvidia-vfio-manager")));
}

// Somebody changes the object between our reading and our writing: it is read once more.
TEST(PredecessorTest, AnObjectThatChangesMeanwhileIsTakenOverAllTheSame) {
  Json object = {
      {"apiVersion", "v1"},
      {"kind", "ConfigMap"},
      {"metadata",
       {{"name", "default-mig-parted-config"},
        {"namespace", "gpu-operator"},
        {"uid", "1"},
        {"resourceVersion", "7"},
        {"managedFields", Json::array({{{"manager", "gpu-operator"},
                                        {"operation", "Update"},
                                        {"apiVersion", "v1"},
                                        {"fieldsType", "FieldsV1"},
                                        {"fieldsV1", {{"f:data", Json::object()}}}}})}}}};
  std::mutex mutex;
  std::vector<std::string> versions;  // that patches are for
  auto server = pitcrew::testing::ScriptedServer::Start([&](const auto& request, auto& reply,
                                                            const io::StopToken&) {
    const std::lock_guard lock(mutex);
    if (request.method == "PATCH") {
      const auto patch = codec::ParseJson(request.body, "patch");
      versions.push_back((*patch)[1]["value"].template get<std::string>());
      const bool first = versions.size() == 1;
      if (first) object["metadata"]["resourceVersion"] = "8";
      reply.Send(first ? 409 : 200, first ? "{}" : object.dump());
    } else if (request.path.ends_with("/configmaps")) {
      const Json list = {
          {"kind", "ConfigMapList"}, {"metadata", {{"resourceVersion", "9"}}}, {"items", {object}}};
      reply.Send(200, list.dump());
    } else {
      reply.Send(200, object.dump());
    }
  });
  ASSERT_TRUE(server);
  const auto client = kube::Client::Create({.server = (*server)->url()});
  ASSERT_TRUE(client);
  Predecessor predecessor(*client, "gpu-operator", "policy", desired::Operands());
  const auto looked = predecessor.Look(kube::kConfigMaps, {});
  ASSERT_TRUE(looked) << looked.error().message;
  const auto taken = predecessor.TakeOver(
      kube::kConfigMaps, {.namespace_name = "gpu-operator", .name = "default-mig-parted-config"},
      {});
  EXPECT_TRUE(taken) << taken.error().message;
  EXPECT_THAT(versions, ::testing::ElementsAre("7", "8"));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing

// The NodeFeature output on a real API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "base/clock.h"
#include "base/file.h"
#include "codec/yaml.h"
#include "kube/await.h"
#include "kube/client.h"
#include "kube/projection.h"
#include "node/feature_discovery/output.h"
#include "node/node_feature/node_feature.h"
#include "tests/support/folders.h"

namespace pitcrew::node::feature_discovery {
namespace {

using node_feature::kNodeFeatures;

class NodeFeatureOnServer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    client_ = testing::ApiServer::Shared().MakeClient();
    const auto text = base::ReadFile(test_support::SourceFolder() /
                                     "deploy/chart/gpu-operator/charts/node-feature-discovery/"
                                     "crds/nfd-api-crds.yaml");
    ASSERT_TRUE(text.has_value()) << text.error().ToString();
    const auto definitions = codec::ParseYamlStream(*text);
    ASSERT_TRUE(definitions.has_value()) << definitions.error().ToString();
    for (const auto& definition : *definitions) {
      const auto created = client_->Create(kube::kCustomResourceDefinitions, definition);
      ASSERT_TRUE(created.has_value()) << created.error().ToString();
    }
    const auto served = kube::Await<codec::Json>(
        client_, kube::kCustomResourceDefinitions,
        kube::ProjectJson<codec::Json>(
            [](const codec::Json& object) -> base::Result<codec::Json> { return object; }),
        {},
        [](const kube::Store<codec::Json>& store) -> base::Result<bool> {
          const auto found = store.Find({"", "nodefeatures.nfd.k8s-sigs.io"});
          return found.is_present() &&
                 (**found.value()).dump().find(R"("Established")") != std::string::npos;
        },
        {}, base::SteadyClock::now() + std::chrono::seconds(30));
    ASSERT_TRUE(served.has_value()) << served.error().ToString();
  }
  static void TearDownTestSuite() { client_.reset(); }

  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const char c : name) namespace_ += static_cast<char>(std::tolower(c));
    const auto created = client_->Create(
        kube::kNamespaces,
        {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", namespace_}}}});
    ASSERT_TRUE(created.has_value()) << created.error().ToString();
  }

  [[nodiscard]] std::unique_ptr<Output> Open(const std::string& pod = "") const {
    Options options;
    options.node_name = "node-1";
    options.namespace_name = namespace_;
    options.pod_name = pod;
    return NodeFeatureOutput(client_, options);
  }
  [[nodiscard]] codec::Json Live() const {
    const auto live = client_->Get(kNodeFeatures, {namespace_, "nvidia-features-for-node-1"});
    EXPECT_TRUE(live.has_value()) << live.error().ToString();
    return live.value_or(codec::Json::object());
  }
  static std::uint64_t Writes() {
    std::uint64_t writes = 0;
    for (const auto& [request, count] : client_->request_counts()) {
      if (request.first != "get" && request.first != "list") writes += count;
    }
    return writes;
  }

  static std::shared_ptr<kube::Client> client_;
  std::string namespace_;
};

std::shared_ptr<kube::Client> NodeFeatureOnServer::client_;

TEST_F(NodeFeatureOnServer, WritesOnlyWhatChanged) {
  RecordProperty("holds", "feature-discovery.md #20");
  const auto output = Open();
  ASSERT_TRUE(output->Publish({{"nvidia.com/gpu.count", "8"}}, {}).has_value());
  auto live = Live();
  EXPECT_EQ(live["metadata"]["labels"],
            codec::Json({{"nfd.node.kubernetes.io/node-name", "node-1"}}));
  EXPECT_EQ(live["spec"]["labels"], codec::Json({{"nvidia.com/gpu.count", "8"}}));
  EXPECT_EQ(live["spec"]["features"]["flags"], codec::Json::object());

  const auto before = Writes();
  ASSERT_TRUE(output->Publish({{"nvidia.com/gpu.count", "8"}}, {}).has_value());
  EXPECT_EQ(Writes(), before) << "nothing changed, nothing is written";
  ASSERT_TRUE(output->Publish({{"nvidia.com/gpu.count", "7"}}, {}).has_value());
  EXPECT_EQ(Writes(), before + 1);
  EXPECT_EQ(Live()["spec"]["labels"], codec::Json({{"nvidia.com/gpu.count", "7"}}));
}

TEST_F(NodeFeatureOnServer, PutsBackWhatSomebodyChanged) {
  const auto output = Open();
  const Labels labels = {{"nvidia.com/gpu.count", "8"}};
  ASSERT_TRUE(output->Publish(labels, {}).has_value());
  ASSERT_TRUE(client_
                  ->Patch(kNodeFeatures, {namespace_, "nvidia-features-for-node-1"},
                          kube::PatchType::kMerge,
                          {{"spec", {{"labels", {{"nvidia.com/gpu.count", "1000"}}}}}})
                  .has_value());
  ASSERT_TRUE(output->Publish(labels, {}).has_value());
  EXPECT_EQ(Live()["spec"]["labels"]["nvidia.com/gpu.count"], "8");
  ASSERT_TRUE(
      client_->Delete(kNodeFeatures, {namespace_, "nvidia-features-for-node-1"}).has_value());
  ASSERT_TRUE(output->Publish(labels, {}).has_value());
  EXPECT_EQ(Live()["spec"]["labels"]["nvidia.com/gpu.count"], "8");
}

TEST_F(NodeFeatureOnServer, BelongsToItsDaemonSetAndPod) {
  RecordProperty("holds", "feature-discovery.md #10");
  const codec::Json pod = {{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"metadata",
                            {{"name", "gfd-1"},
                             {"ownerReferences",
                              {{{"apiVersion", "apps/v1"},
                                {"kind", "DaemonSet"},
                                {"name", "gpu-feature-discovery"},
                                {"uid", "1f0c0a8e-0000-4000-8000-000000000001"},
                                {"controller", true}}}},
                             {"namespace", namespace_}}},
                           {"spec", {{"containers", {{{"name", "c"}, {"image", "i"}}}}}}};
  const auto created = client_->Create(kube::kPods, pod);
  ASSERT_TRUE(created.has_value()) << created.error().ToString();
  ASSERT_TRUE(Open("gfd-1")->Publish({{"nvidia.com/gpu.count", "8"}}, {}).has_value());
  const auto owners = Live()["metadata"]["ownerReferences"];
  ASSERT_EQ(owners.size(), 2U);
  EXPECT_EQ(owners[0]["kind"], "DaemonSet");
  EXPECT_EQ(owners[0]["controller"], true);
  EXPECT_EQ(owners[1]["name"], "gfd-1");
  EXPECT_EQ(owners[1]["uid"], (*created)["metadata"]["uid"]);
}

TEST_F(NodeFeatureOnServer, APodThatCannotBeReadIsNoOwner) {
  RecordProperty("holds", "feature-discovery.md #10");
  ASSERT_TRUE(Open("gone")->Publish({{"nvidia.com/gpu.count", "8"}}, {}).has_value());
  EXPECT_FALSE(Live()["metadata"].contains("ownerReferences"));
}

}  // namespace
}  // namespace pitcrew::node::feature_discovery

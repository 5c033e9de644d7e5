// The workload pods on a real kube-apiserver; the test plays the kubelet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "apiserver/api_server.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/validator/components.h"
#include "node/validator/workload.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

using codec::Json;
using ::pitcrew::testing::ApiServer;
using ::testing::HasSubstr;

class WorkloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    space_ = "validator-" + std::to_string(++counter_);
    node_ = "node-" + std::to_string(counter_);
    Make(kube::kNamespaces, {{"metadata", {{"name", space_}}}});
    Make(kube::kNodes, {{"metadata", {{"name", node_}}}});
    Make(kube::kServiceAccounts,
         {{"metadata", {{"name", "nvidia-operator-validator"}, {"namespace", space_}}}});
    const Json labels = {{"app", "nvidia-operator-validator"}};
    Make(kube::kDaemonSets,
         {{"metadata", {{"name", "nvidia-operator-validator"}, {"namespace", space_}}},
          {"spec",
           {{"selector", {{"matchLabels", labels}}},
            {"template",
             {{"metadata", {{"labels", labels}}},
              {"spec", {{"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}}}}}}}});
    options_.node_name = node_;
    options_.namespace_name = space_;
    options_.image = "docker.io/pitcrew/pitcrew:v26.7.0";
    options_.output_folder = folder_.path();
    options_.kubeconfig = ApiServer::Shared().kubeconfig();
  }
  void Make(const kube::ResourceKind& kind, const Json& object) {
    const auto made = client_->Create(kind, object);
    ASSERT_TRUE(made) << made.error().message;
  }
  // Gives every pod of the namespace this status as soon as it appears.
  void PlayKubelet(const Json& status, const io::StopToken& stop) {
    kube::InformerOptions selection;
    selection.namespace_name = space_;
    [[maybe_unused]] const auto played = kube::Await<Json>(
        client_, kube::kPods,
        kube::ProjectJson<Json>([](const Json& pod) -> base::Result<Json> { return pod; }),
        selection,
        [&](const kube::Store<Json>& store) -> base::Result<bool> {
          for (const auto& [key, pod] : store.Snapshot()) {
            if (codec::FindString(*pod, {"status", "phase"}) != "Pending") continue;
            kube::WriteOptions options;
            options.subresource = "status";
            pod_ = *pod;
            [[maybe_unused]] const auto patched = client_->Patch(
                kube::kPods, key, kube::PatchType::kMerge, {{"status", status}}, options);
          }
          return false;
        },
        stop);
  }
  base::Status RunWith(const Json& status, const std::function<base::Status()>& run) {
    io::StopSource stop;
    std::thread kubelet([&] { PlayKubelet(status, stop.token()); });
    const auto done = run();
    stop.Stop();
    kubelet.join();
    return done;
  }

  static int counter_;
  test_support::TemporaryFolder folder_;
  std::shared_ptr<kube::Client> client_;
  std::string space_;
  std::string node_;
  Options options_;
  Json pod_;
};
int WorkloadTest::counter_ = 0;

TEST_F(WorkloadTest, CudaIsReadyWhenItsPodHasSucceeded) {  // validator.md section 5.2
  Cluster cluster(options_.kubeconfig);
  const auto done =
      RunWith({{"phase", "Succeeded"}}, [&] { return ValidateCuda(options_, cluster, {}); });
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(*StatusFolder(folder_.path()).Has(kCudaReady));
  EXPECT_EQ(codec::FindString(pod_, {"spec", "nodeName"}), node_);
  EXPECT_EQ(codec::FindString(pod_, {"metadata", "labels", "app"}), "nvidia-cuda-validator");
}

TEST_F(WorkloadTest, AFailedPodEndsTheWaitWithItsReason) {  // validator.md section 14, weakness 3
  Cluster cluster(options_.kubeconfig);
  const auto done = RunWith({{"phase", "Failed"}, {"message", "Pod was evicted: low on memory"}},
                            [&] { return ValidateCuda(options_, cluster, {}); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "WorkloadPodFailed");
  EXPECT_THAT(done.error().message, HasSubstr("low on memory"));
  EXPECT_FALSE(*StatusFolder(folder_.path()).Has(kCudaReady));
}

TEST_F(WorkloadTest, AllEarlierPodsAreReplaced) {  // validator.md section 14, weakness 4
  for (int i = 0; i < 3; ++i) {
    Make(kube::kPods, MakeWorkloadPod(Workload::kCuda, options_, Json::object(), ""));
  }
  Cluster cluster(options_.kubeconfig);
  ASSERT_TRUE(
      RunWith({{"phase", "Succeeded"}}, [&] { return ValidateCuda(options_, cluster, {}); }));
  EXPECT_EQ(client_->List(kube::kPods, space_)->items.size(), 1U);
}

TEST_F(WorkloadTest, PluginIsReadyWhenTheNodeOffersGpus) {  // validator.md section 5.1
  options_.with_workload = false;
  std::thread device_plugin([&] {
    kube::WriteOptions status;
    status.subresource = "status";
    [[maybe_unused]] const auto patched =
        client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                       {{"status", {{"capacity", {{"nvidia.com/gpu", "8"}}}}}}, status);
  });
  Cluster cluster(options_.kubeconfig);
  const auto done = ValidatePlugin(options_, cluster, {});
  device_plugin.join();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(*StatusFolder(folder_.path()).Has(kPluginReady));
}

TEST_F(WorkloadTest, WithoutTheDaemonSetItSaysSo) {
  ASSERT_TRUE(client_->Delete(kube::kDaemonSets, {space_, "nvidia-operator-validator"}));
  const auto done = RunWorkload(Workload::kCuda, options_, client_, {});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message,
              HasSubstr("unable to retrieve the operator validator daemonset"));
}

}  // namespace
}  // namespace pitcrew::node::validator

// Asking a real API server for a qualification, and following a pod whose kubelet the test plays.
#include "qualify/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "api/validator_names.h"
#include "apiserver/api_server.h"

namespace pitcrew::qualify {
namespace {

using codec::Json;
using ::pitcrew::testing::ApiServer;
using ::testing::HasSubstr;

class RequestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    name_ = "ask-" + std::to_string(++counter_);
    request_.node = name_;
    ASSERT_TRUE(client_->Create(kube::kNamespaces, {{"metadata", {{"name", name_}}}}));
    ASSERT_TRUE(client_->Create(kube::kNodes, {{"metadata", {{"name", name_}}}}));
    const auto account = client_->Create(
        kube::ResourceKind{"", "v1", "serviceaccounts", "ServiceAccount"},
        {{"metadata", {{"name", "nvidia-operator-validator"}, {"namespace", name_}}}});
    ASSERT_TRUE(account || account.error().code == base::Code::kExists);
    const Json labels = {{"app", "nvidia-operator-validator"}};
    const Json container = {{"name", "toolkit-validation"},
                            {"image", "pitcrew"},
                            {"securityContext", {{"privileged", true}}}};
    const auto made = client_->Create(
        kube::kDaemonSets,
        {{"metadata", {{"name", api::kOperatorValidator}, {"namespace", name_}}},
         {"spec",
          {{"selector", {{"matchLabels", labels}}},
           {"template",
            {{"metadata", {{"labels", labels}}},
             {"spec",
              {{"serviceAccountName", api::kOperatorValidator},
               {"initContainers", Json::array({container})},
               {"containers", Json::array({{{"name", "c"}, {"image", "pitcrew"}}})}}}}}}}});
    ASSERT_TRUE(made) << made.error().ToString();
  }
  base::Result<kube::ObjectKey> AskIt() { return Ask(*client_, request_, name_, {}); }
  [[nodiscard]] Json Node() const { return client_->Get(kube::kNodes, {"", name_}).value(); }
  [[nodiscard]] std::string Label() const {
    return codec::FindString(Node(), {"metadata", "labels", api::kQualification});
  }
  void Tell(api::QualificationState state) const {
    api::Qualification told;
    told.state = state;
    told.gpus = {{.index = 0, .uuid = "GPU-a", .name = "H100", .passed = false, .failures = {"x"}}};
    const std::string key(api::kQualification);
    const Json patch = {
        {"metadata",
         {{"labels", {{key, ToString(state)}}}, {"annotations", {{key, api::ToText(told)}}}}}};
    ASSERT_TRUE(client_->Patch(kube::kNodes, {"", name_}, kube::PatchType::kMerge, patch));
  }
  void EndPod(const kube::ObjectKey& pod, const char* phase) const {
    kube::WriteOptions as;
    as.subresource = "status";
    const auto patched = client_->Patch(kube::kPods, pod, kube::PatchType::kMerge,
                                        {{"status", {{"phase", phase}}}}, as);
    ASSERT_TRUE(patched) << patched.error().ToString();
  }
  void MakeGpuPod() const {
    const Json container = {
        {"name", "c"}, {"image", "i"}, {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}};
    const auto made =
        client_->Create(kube::kPods, {{"metadata", {{"name", "training"}, {"namespace", name_}}},
                                      {"spec",
                                       {{"nodeName", name_},
                                        {"serviceAccountName", api::kOperatorValidator},
                                        {"containers", Json::array({container})}}}});
    ASSERT_TRUE(made) << made.error().ToString();
  }

  static int counter_;
  std::shared_ptr<kube::Client> client_;
  std::string name_;
  PodRequest request_;
};
int RequestTest::counter_ = 0;

TEST_F(RequestTest, ThePodIsMadeAndItsResultFollowed) {
  const auto pod = AskIt();
  ASSERT_TRUE(pod) << pod.error().ToString();
  EXPECT_EQ(Label(), "pending");
  const auto made = client_->Get(kube::kPods, *pod);
  ASSERT_TRUE(made);
  EXPECT_EQ(codec::FindString(*made, {"spec", "nodeName"}), name_);
  EXPECT_EQ(AskIt().error().reason, "AlreadyRunning");
  std::thread kubelet([&] {
    Tell(api::QualificationState::kFailed);
    EndPod(*pod, "Failed");
  });
  const auto told = Follow(client_, name_, *pod, {}, {});
  kubelet.join();
  ASSERT_TRUE(told) << told.error().ToString();
  EXPECT_EQ(told->state, api::QualificationState::kFailed);
  EXPECT_EQ(told->gpus.size(), 1u);
  // One that has ended makes room for the next.
  const auto again = AskIt();
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(client_->Get(kube::kPods, *pod).error().code, base::Code::kNotFound);
}

TEST_F(RequestTest, APodThatEndsWithoutAWordIsNoResult) {
  Tell(api::QualificationState::kPassed);  // of before
  const auto pod = AskIt();
  ASSERT_TRUE(pod) << pod.error().ToString();
  EndPod(*pod, "Failed");
  const auto told = Follow(client_, name_, *pod, {}, {});
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().reason, "NotDone");
}

TEST_F(RequestTest, PodsWithGpusAreNotDisturbed) {
  MakeGpuPod();
  const auto refused = AskIt();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "GpuPodsRun");
  EXPECT_THAT(refused.error().message, HasSubstr(name_ + "/training"));
  EXPECT_EQ(Label(), "") << "nothing was asked for";
  request_.even_if_used = true;
  EXPECT_TRUE(AskIt());
}

TEST_F(RequestTest, WhatIsNotThereIsNamed) {
  request_.node = "nowhere";
  EXPECT_EQ(AskIt().error().code, base::Code::kNotFound);
  request_.node = name_;
  EXPECT_EQ(Ask(*client_, request_, "default", {}).error().reason, "NoValidator");
}

TEST_F(RequestTest, WhenThePodCannotBeMadeTheNodeTellsWhatItToldBefore) {
  Tell(api::QualificationState::kPassed);
  const auto before = Node()["metadata"]["annotations"];
  // A pod is held against the priority classes that there are, a DaemonSet is not.
  const Json unknown_class = {
      {"spec", {{"template", {{"spec", {{"priorityClassName", "there-is-none"}}}}}}}};
  ASSERT_TRUE(client_->Patch(kube::kDaemonSets, {name_, std::string(api::kOperatorValidator)},
                             kube::PatchType::kMerge, unknown_class));
  const auto refused = AskIt();
  ASSERT_FALSE(refused);
  EXPECT_EQ(Label(), "passed");
  EXPECT_EQ(Node()["metadata"]["annotations"], before);
}

}  // namespace
}  // namespace pitcrew::qualify

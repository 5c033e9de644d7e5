// Pods that wait for the runtime, against a real API server.
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "node/toolkit/waiting_pods.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

class WaitingPods : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = testing::ApiServer::Shared().MakeClient();
    const Json name = {{"metadata", {{"name", kNamespace}}}};
    ASSERT_TRUE(client_->Create(kube::kNamespaces, name));
    ASSERT_TRUE(client_->Create(kube::kServiceAccounts,
                                {{"metadata", {{"name", "default"}, {"namespace", kNamespace}}}}));
    const kube::ResourceKind runtime_classes{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass",
                                             false};
    ASSERT_TRUE(client_->Create(runtime_classes,
                                {{"metadata", {{"name", "nvidia"}}}, {"handler", "nvidia"}}));
  }

  void AddPod(const std::string& name, const std::string& node, const std::string& runtime_class,
              const std::string& phase) {
    Json pod = {{"metadata", {{"name", name}, {"namespace", kNamespace}}},
                {"spec",
                 {{"nodeName", node},
                  {"containers", Json::array({{{"name", "main"}, {"image", "none"}}})}}}};
    if (!runtime_class.empty()) pod["spec"]["runtimeClassName"] = runtime_class;
    const auto created = client_->Create(kube::kPods, pod);
    ASSERT_TRUE(created) << created.error().message;
    ASSERT_TRUE(client_->Patch(kube::kPods, Key(name), kube::PatchType::kMerge,
                               {{"status", {{"phase", phase}}}}, {.subresource = "status"}));
  }
  bool IsMarked(const std::string& name) {
    const auto pod = client_->Get(kube::kPods, Key(name));
    EXPECT_TRUE(pod) << pod.error().message;
    return pod && codec::Find(*pod, {"metadata", "annotations", kRuntimeConfigured}) != nullptr;
  }
  static kube::ObjectKey Key(const std::string& name) {
    return {.namespace_name = kNamespace, .name = name};
  }

  static constexpr const char* kNamespace = "waiting-pods";
  std::shared_ptr<kube::Client> client_;
};

TEST_F(WaitingPods, OnlyPendingOnesOfThisNodeWithARuntimeClass) {
  AddPod("toolkit", "here", "", "Running");
  AddPod("plugin", "here", "nvidia", "Pending");
  AddPod("running", "here", "nvidia", "Running");
  AddPod("without-class", "here", "", "Pending");
  AddPod("elsewhere", "there", "nvidia", "Pending");
  const auto count = RetryWaitingPods(*client_, kNamespace, "toolkit", {});
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, 1u);
  EXPECT_TRUE(IsMarked("plugin"));
  EXPECT_FALSE(IsMarked("running"));
  EXPECT_FALSE(IsMarked("without-class"));
  EXPECT_FALSE(IsMarked("elsewhere"));

  const auto stranger = RetryWaitingPods(*client_, kNamespace, "nobody", {});
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, base::Code::kNotFound);
}

}  // namespace
}  // namespace pitcrew::node::toolkit

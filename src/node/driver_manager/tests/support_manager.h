// The driver manager with a Node of a real kube-apiserver, over a node's tree in a temporary
// folder.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/labels.h"
#include "apiserver/api_server.h"
#include "desired/node.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/driver_manager/manager.h"
#include "node/own_node/own_node.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_manager {

inline constexpr const char* kPlugin = "nvidia.com/gpu.deploy.device-plugin";

class ManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ::pitcrew::testing::ApiServer::Shared().MakeClient();
    node_ = "node-" + std::to_string(++counter_);
    options_.node_name = node_;
    options_.namespace_name = "space-" + std::to_string(counter_);
    options_.host_root = root_.path() / "host";
    options_.sys = root_.path() / "sys";
    options_.run_folder = root_.path() / "run";
    options_.config_digest = "123";
    options_.preinstalled_pause = std::chrono::seconds(0);
    // Never the machine's own modules.
    options_.unload_module = [this](const std::string& module) -> base::Status {
      if (module == busy_module_) return base::Fail(base::Unavailable("ModuleInUse", module));
      unloaded_.push_back(module);
      std::filesystem::remove_all(options_.sys / "module" / module);
      return {};
    };
    Make(kube::kNamespaces, {{"metadata", {{"name", options_.namespace_name}}}});
    Make(kube::kServiceAccounts,
         {{"metadata", {{"name", "default"}, {"namespace", options_.namespace_name}}}});
    Make(kube::kNodes, {{"metadata", {{"name", node_}, {"labels", {{kPlugin, "true"}}}}}});
  }
  void Make(const kube::ResourceKind& kind, const codec::Json& object) {
    const auto made = client_->Create(kind, object);
    ASSERT_TRUE(made) << made.error().message;
  }
  void MakePod(const std::string& name, const std::string& app, const codec::Json& resources) {
    Make(kube::kPods,
         {{"metadata",
           {{"name", name}, {"namespace", options_.namespace_name}, {"labels", {{"app", app}}}}},
          {"spec",
           {{"nodeName", node_},
            {"terminationGracePeriodSeconds", 0},  // no kubelet tells of their end
            {"containers",
             codec::Json::array({{{"name", "c"}, {"image", "i"}, {"resources", resources}}})}}}});
  }
  // As the kubelet says when its container has started.
  void LetRun(const std::string& pod) {
    const codec::Json container = {
        {"name", "c"},   {"image", "i"},      {"imageID", ""},
        {"ready", true}, {"restartCount", 0}, {"state", {{"running", codec::Json::object()}}}};
    ASSERT_TRUE(
        client_->Patch(kube::kPods, {options_.namespace_name, pod}, kube::PatchType::kMerge,
                       {{"status", {{"containerStatuses", codec::Json::array({container})}}}},
                       {.subresource = "status"}));
  }
  void MakeOwnedPod(const std::string& name, const std::string& daemonset) {
    codec::Json pod = {{"metadata", {{"name", name}, {"namespace", options_.namespace_name}}},
                       {"spec",
                        {{"nodeName", node_},
                         {"terminationGracePeriodSeconds", 0},
                         {"containers", codec::Json::array({{{"name", "c"}, {"image", "i"}}})}}}};
    pod["metadata"]["ownerReferences"] = codec::Json::array({{{"apiVersion", "apps/v1"},
                                                              {"kind", "DaemonSet"},
                                                              {"name", daemonset},
                                                              {"uid", "u-" + name},
                                                              {"controller", true}}});
    Make(kube::kPods, pod);
  }
  void SetLabel(std::string_view label, const std::string& value) {
    ASSERT_TRUE(client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                               {{"metadata", {{"labels", {{std::string(label), value}}}}}}));
  }
  // A claim to which a GPU has been given.
  void MakeClaim(const std::string& name) {
    const kube::ResourceKind claims{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"};
    const codec::Json request = {{"name", "gpu"},
                                 {"exactly", {{"deviceClassName", "gpu.nvidia.com"}}}};
    Make(claims, {{"metadata", {{"name", name}, {"namespace", options_.namespace_name}}},
                  {"spec", {{"devices", {{"requests", codec::Json::array({request})}}}}}});
    const codec::Json given = {
        {"request", "gpu"}, {"driver", "gpu.nvidia.com"}, {"pool", "p"}, {"device", "gpu-0"}};
    const auto allocated = client_->Patch(
        claims, {options_.namespace_name, name}, kube::PatchType::kMerge,
        {{"status", {{"allocation", {{"devices", {{"results", codec::Json::array({given})}}}}}}}},
        {.subresource = "status"});
    ASSERT_TRUE(allocated) << allocated.error().message;
  }
  // As a run leaves the node that was killed while it waited for pods.
  void LeaveAsKilled() {
    ASSERT_TRUE(client_->Patch(
        kube::kNodes, {"", node_}, kube::PatchType::kMerge,
        {{"metadata",
          {{"labels", {{kPlugin, "paused-for-driver-upgrade"}}},
           {"annotations", {{std::string(desired::kCordonedByDriverManager), "true"}}}}},
         {"spec", {{"unschedulable", true}}}}));
  }
  void ExpectTidy() {
    const auto node = Node();
    EXPECT_EQ(own_node::LabelOf(node, kPlugin), "true");
    EXPECT_EQ(own_node::AnnotationOf(node, desired::kCordonedByDriverManager), "");
    EXPECT_EQ(codec::Find(node, {"spec", "unschedulable"}), nullptr);
  }
  // Waits for the Event on the node with this reason; its message.
  std::string AwaitEvent(const std::string& reason) {
    kube::InformerOptions selection;
    selection.namespace_name = "default";
    selection.field_selector = "involvedObject.name=" + node_ + ",reason=" + reason;
    std::string message;
    const auto seen = kube::Await<std::string>(
        client_, {"", "v1", "events", "Event"},
        kube::ProjectJson<std::string>([](const codec::Json& event) -> base::Result<std::string> {
          return codec::FindString(event, {"message"});
        }),
        selection,
        [&](const kube::Store<std::string>& store) -> base::Result<bool> {
          for (const auto& [key, text] : store.Snapshot()) message = *text;
          return !message.empty();
        },
        {}, base::Deadline::After(test_support::kPatience));
    EXPECT_TRUE(seen) << seen.error().message;
    return message;
  }
  // Once a run has ended: it sends its Events before.
  bool HasEvent(const std::string& reason) {
    kube::ListOptions selection;
    selection.field_selector = "involvedObject.name=" + node_ + ",reason=" + reason;
    const auto events = client_->List(kube::kEvents, "default", selection);
    EXPECT_TRUE(events) << events.error().message;
    return events && !events->items.empty();
  }
  codec::Json Node() { return *client_->Get(kube::kNodes, {"", node_}); }
  // What the DaemonSet controller does: a paused operand's pod goes.
  void PlayDaemonSetController(const io::StopToken& stop) {
    kube::InformerOptions selection;
    selection.field_selector = "metadata.name=" + node_;
    [[maybe_unused]] const auto played = kube::Await<codec::Json>(
        client_, kube::kNodes,
        kube::ProjectJson<codec::Json>(
            [](const codec::Json& node) -> base::Result<codec::Json> { return node; }),
        selection,
        [&](const kube::Store<codec::Json>& store) -> base::Result<bool> {
          const auto node = store.Find({"", node_});
          if (!node.is_present() || own_node::LabelOf(**node.value(), plugin_label_) == "true")
            return false;
          was_paused_ = true;
          kube::DeleteOptions at_once;
          at_once.grace_period_seconds = 0;
          [[maybe_unused]] const auto deleted =
              client_->Delete(kube::kPods, {options_.namespace_name, plugin_pod_}, at_once);
          return true;
        },
        stop);
  }
  base::Status Run() {
    io::StopSource stop;
    std::thread controller([&] { PlayDaemonSetController(stop.token()); });
    const auto done = UninstallDriver(options_, client_, {});
    stop.Stop();
    controller.join();
    return done;
  }

  static inline int counter_ = 0;
  test_support::TemporaryFolder root_;
  std::shared_ptr<kube::Client> client_;
  std::string node_;
  Options options_;
  bool was_paused_ = false;
  std::string plugin_label_ = kPlugin;  // of the operand whose pod plays along
  std::string plugin_pod_ = "plugin";
  std::string busy_module_;
  std::vector<std::string> unloaded_;
};

}  // namespace pitcrew::node::driver_manager

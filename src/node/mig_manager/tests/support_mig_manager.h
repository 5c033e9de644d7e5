// A node whose MIG manager is tried on a real kube-apiserver and on simulated GPUs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "api/labels.h"
#include "api/mig_progress.h"
#include "apiserver/api_server.h"
#include "apiserver/unsteady_writer.h"
#include "base/file.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/mig_manager/daemon.h"
#include "node/own_node/own_node.h"
#include "nvml/nvml.h"
#include "rpc/testing/fake_pod_resources.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/patience.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::mig_manager {

using codec::Json;
using own_node::AnnotationOf;
using own_node::LabelOf;
using ::pitcrew::testing::ApiServer;
using ::pitcrew::testing::UnsteadyWriter;
using ::pitcrew::testing::WaitForNodeEvent;
using rpc::testing::FakePodResources;
using test_support::SimulatedNode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kPlugin = "nvidia.com/gpu.deploy.device-plugin";
constexpr const char* kTwoGpus = "gpus: [{profile: H100-80, count: 2}]";

class Manager : public test_support::DaemonThread {
 public:
  Manager(const Options& options, const std::shared_ptr<kube::Client>& client)
      : DaemonThread([options, client](const io::StopToken& stop) {
          return Daemon(options, client, stop).Run();
        }) {}
};

class MigManagerTest : public ::testing::Test {
 protected:
  explicit MigManagerTest(const char* gpus = kTwoGpus) : gpus_(gpus) { gpus_.InstallDriver(); }

  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    node_ = "gpu-" + std::to_string(++counter_);
    const auto root = gpus_.folder().path();
    options_.node_name = node_;
    options_.namespace_name = "space-" + std::to_string(counter_);
    options_.clients_namespace = options_.namespace_name;
    options_.pod_name = "manager";
    options_.host_root = root / "host";
    options_.sys_root = root / "empty";
    options_.driver_root_container = gpus_.driver_root();
    options_.validations = root / "validations";
    options_.cdi_folder = root / "cdi";
    options_.generated_config = root / "etc/generated-config.yaml";
    std::filesystem::create_directories(options_.validations);
    std::filesystem::create_directories(options_.pod_resources().parent_path());
    Make(kube::kNamespaces, {{"metadata", {{"name", options_.namespace_name}}}});
    Make(kube::kServiceAccounts,
         {{"metadata", {{"name", "default"}, {"namespace", options_.namespace_name}}}});
    Make(kube::kNodes, {{"metadata", {{"name", node_}}}});
    MakePod("manager", Json::object());
    FollowStates();
  }
  void TearDown() override { states_.reset(); }

  void Make(const kube::ResourceKind& kind, const Json& object) {
    const auto made = client_->Create(kind, object);
    ASSERT_TRUE(made) << made.error().message;
  }
  void MakePod(const std::string& name, const Json& limits, const std::string& app = "") {
    Make(kube::kPods,
         {{"metadata",
           {{"name", name}, {"namespace", options_.namespace_name}, {"labels", {{"app", app}}}}},
          {"spec",
           {{"nodeName", node_},
            {"terminationGracePeriodSeconds", 0},
            {"containers",
             Json::array(
                 {{{"name", "c"}, {"image", "i"}, {"resources", {{"limits", limits}}}}})}}}});
  }
  void MakeGpuPod(const std::string& name) { MakePod(name, {{"nvidia.com/gpu", "1"}}); }
  void DeletePod(const std::string& name) {
    kube::DeleteOptions at_once;
    at_once.grace_period_seconds = 0;
    const auto deleted = client_->Delete(kube::kPods, {options_.namespace_name, name}, at_once);
    ASSERT_TRUE(deleted) << deleted.error().message;
  }
  void Label(std::string_view name, const std::optional<std::string>& value) {
    const auto sent = client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                                     own_node::LabelPatch(name, value));
    ASSERT_TRUE(sent) << sent.error().message;
  }
  void Want(const std::string& config) { Label(api::kMigConfig, config); }
  Json Node() { return *client_->Get(kube::kNodes, {"", node_}); }
  api::MigProgress Progress() {
    return api::ParseMigProgress(AnnotationOf(Node(), api::kMigConfigProgress))
        .value_or(api::MigProgress());
  }

  // Every value that the state label takes, once for each change.
  void FollowStates() {
    kube::InformerOptions only;
    only.field_selector = "metadata.name=" + node_;
    states_ = std::make_unique<kube::Informer<Json>>(
        client_, kube::kNodes, kube::ProjectJson<Json>([](const Json& node) -> base::Result<Json> {
          return Json{LabelOf(node, api::kMigConfigState),
                      AnnotationOf(node, api::kMigConfigProgress)};
        }),
        only);
    states_->AddHandler([this](const kube::Change<Json>& change) {
      if (!change.now) return;
      const std::lock_guard lock(mutex_);
      const auto state = (*change.now)[0].get<std::string>();
      if (!state.empty() && last_ != state) seen_.push_back(state);
      last_ = state;
      progress_ = (*change.now)[1].get<std::string>();
      changed_.notify_all();
    });
    states_->Start();
    ASSERT_TRUE(states_->WaitUntilSynced({}));
  }
  // Waits for the states since the last call to end like this, and returns them all.
  std::vector<std::string> StatesUntil(const std::string& last) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, test_support::kPatience,
                      [&] { return !seen_.empty() && seen_.back() == last; });
    return std::exchange(seen_, {});
  }
  bool WaitForProgress(const std::string& part, bool there = true) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, test_support::kPatience,
                             [&] { return (progress_.find(part) != std::string::npos) == there; });
  }
  bool WaitForProgressWithout(const std::string& part) { return WaitForProgress(part, false); }

  // Names of the MIG devices by GPU.
  std::vector<std::vector<std::string>> Geometry() {
    const auto library = nvml::Library::Open({gpus_.driver_root()});
    EXPECT_TRUE(library) << library.error().message;
    std::vector<std::vector<std::string>> geometry;
    const auto inventory = (*library)->ReadInventory();
    for (const auto& device : inventory->devices) {
      auto& names = geometry.emplace_back();
      for (const auto& mig : device.mig_devices) names.push_back(mig.profile.Name());
    }
    return geometry;
  }
  std::vector<std::string> Uuids() {
    const auto library = nvml::Library::Open({gpus_.driver_root()});
    std::vector<std::string> uuids;
    const auto inventory = (*library)->ReadInventory();
    for (const auto& device : inventory->devices) uuids.push_back(device.uuid);
    return uuids;
  }
  std::vector<std::string> EventReasons() {
    const auto events = client_->List(kube::kEvents, "default");
    std::vector<std::string> reasons;
    for (const auto& event : events->items) {
      if (codec::FindString(event, {"involvedObject", "name"}) == node_) {
        reasons.push_back(codec::FindString(event, {"reason"}));
      }
    }
    return reasons;
  }

  inline static int counter_ = 0;
  const SimulatedNode gpus_;
  std::shared_ptr<kube::Client> client_;
  std::string node_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> seen_;
  std::string last_;
  std::string progress_;
  std::unique_ptr<kube::Informer<Json>> states_;
};

inline const std::vector<std::string> kWhole;
inline const std::vector<std::string> kSeven(7, "1g.10gb");
inline const std::vector<std::string> kTwo(2, "3g.40gb");

}  // namespace pitcrew::node::mig_manager

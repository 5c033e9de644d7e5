// The whole plugin over a node's files, against the kubelet's side over real gRPC.
#include "node/sandbox_device_plugin/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/file.h"
#include "codec/yaml.h"
#include "rpc/testing/fake_kubelet.h"
#include "support_node_tree.h"
#include "tests/support/folders.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NodeTree;
using ::testing::SizeIs;

constexpr const char* kTwoGpus = R"(
pci:
- {at: "0000:65:00.0", is: "10de:2236", driver: vfio-pci, group: 1, numa: 0}
- {at: "0000:66:00.0", is: "10de:2236", driver: vfio-pci, group: 2, numa: 1}
)";
constexpr const char* kA10 = "nvidia.com/GA102GL_A10";

// "0000:65:00.0", and "!0000:65:00.0" for one that is unhealthy.
std::vector<std::string> Texts(const std::vector<rpc::PluginDevice>& list) {
  std::vector<std::string> texts;
  for (const auto& device : list) texts.push_back((device.healthy ? "" : "!") + device.id);
  return texts;
}

class SandboxDevicePlugin : public ::testing::Test {
 protected:
  ~SandboxDevicePlugin() override { Stop(); }

  void Start(const std::string& description, Client client = Client::kKubevirt) {
    tree_ = std::make_unique<NodeTree>(*codec::ParseYaml(description));
    const auto folder = tree_->folder().path() / "kubelet";
    std::filesystem::create_directories(folder);
    kubelet_ = FakeKubelet::Start(folder);
    Options options;
    options.client = client;
    options.gpu_alias = "pgpu";
    options.switch_alias = "nvswitch";
    options.pci_ids = test_support::SourceFolder() / "deploy/image/pci.ids";
    options.kubelet_socket = folder / "kubelet.sock";
    NodePaths paths;
    paths.sys = tree_->root();
    paths.dev = tree_->root();
    paths.cdi_folder = tree_->folder().path() / "cdi";
    paths.known_vgpu_types = tree_->folder().path() / "run/nvidia/vgpu/types.json";
    std::filesystem::create_directories(paths.known_vgpu_types.parent_path());
    paths.first_retry = std::chrono::milliseconds(20);
    thread_ = std::thread([this, options, paths] {
      Daemon daemon(options, paths, stop_.token());
      status_ = daemon.Run();
    });
  }
  base::Status Stop() {
    stop_.Stop();
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  [[nodiscard]] std::filesystem::path Socket(const std::string& name) const {
    return tree_->folder().path() / "kubelet" / name;
  }
  // The plugin of the resource that registered as number `count`, or any.
  std::unique_ptr<PluginClient> Registered(const std::string& resource, std::size_t count = 1) {
    const auto taken = kubelet_->WaitForRegistrations(count);
    const auto found =
        std::ranges::find(taken, resource, &rpc::testing::TakenRegistration::resource_name);
    EXPECT_NE(found, taken.end()) << resource;
    return PluginClient::Connect(Socket(found->endpoint));
  }
  // The next list that is this; others may come before it.
  static bool WaitForList(PluginClient& client, const std::vector<std::string>& texts) {
    while (true) {
      const auto list = client.NextList();
      if (!list) return false;
      if (Texts(*list) == texts) return true;
    }
  }

  std::unique_ptr<NodeTree> tree_;
  std::unique_ptr<FakeKubelet> kubelet_;
  io::StopSource stop_;
  base::Status status_;
  std::thread thread_;
};

TEST_F(SandboxDevicePlugin, RegistersAndLists) {
  RecordProperty("holds", "kubevirt-device-plugin.md #11, #24");
  Start(kTwoGpus);
  const auto client = Registered(kA10);
  const auto taken = kubelet_->registrations();
  EXPECT_EQ(taken[0].endpoint, "kubevirt-GA102GL_A10.sock");
  EXPECT_EQ(taken[0].version, "v1beta1");
  EXPECT_FALSE(taken[0].pre_start_required);
  EXPECT_TRUE(*client->PreferredAllocationAvailable());
  const auto list = client->NextList();
  ASSERT_TRUE(list) << list.error().ToString();
  EXPECT_THAT(Texts(*list), ElementsAre("0000:65:00.0", "0000:66:00.0"));
  EXPECT_EQ((*list)[0].numa_node, 0);
  EXPECT_EQ((*list)[1].numa_node, 1);
  EXPECT_TRUE(Stop());
  EXPECT_FALSE(std::filesystem::exists(Socket("kubevirt-GA102GL_A10.sock")));
}

TEST_F(SandboxDevicePlugin, EachContainerOfACallGetsItsOwnDevices) {
  RecordProperty("holds", "kubevirt-device-plugin.md #26, virtualisation-and-olm.md #2");
  Start(kTwoGpus);
  const auto client = Registered(kA10);
  const auto answers = client->Allocate({{"0000:65:00.0"}, {"0000:66:00.0"}});
  ASSERT_TRUE(answers) << answers.error().ToString();
  const std::string variable = "PCI_RESOURCE_NVIDIA_COM_GA102GL_A10";
  ASSERT_THAT(*answers, SizeIs(2));
  EXPECT_EQ((*answers)[0].envs.at(variable), "0000:65:00.0");
  EXPECT_EQ((*answers)[1].envs.at(variable), "0000:66:00.0");
  const auto both = client->Allocate({{"0000:65:00.0", "0000:66:00.0"}});
  EXPECT_EQ(both->front().envs.at(variable), "0000:65:00.0,0000:66:00.0");
}

TEST_F(SandboxDevicePlugin, RefusesWhatIsNoLongerAsItWas) {
  RecordProperty("holds", "kubevirt-device-plugin.md #22");
  Start(kTwoGpus);
  const auto client = Registered(kA10);
  EXPECT_THAT(client->Allocate({{"0000:99:00.0"}}).error().message,
              HasSubstr("unknown device: 0000:99:00.0"));
  tree_->folder().Write("sys/devices/pci0000:60/0000:65:00.0/vendor", "0x1234\n");
  EXPECT_FALSE(client->Allocate({{"0000:65:00.0"}}));
  std::filesystem::remove(tree_->PciFolder("0000:66:00.0") / "iommu_group");
  EXPECT_FALSE(client->Allocate({{"0000:65:00.0"}, {"0000:66:00.0"}}));
}

constexpr const char* kVgpus = R"(
pci:
- {at: "0000:41:00.0", is: "10de:2335", driver: nvidia, group: 10}
- {at: "0000:41:00.4", is: "10de:2335", driver: nvidia, group: 20, physfn: "0000:41:00.0", vgpu: 1414}
- {at: "0000:41:00.5", is: "10de:2335", driver: nvidia, group: 21, physfn: "0000:41:00.0", vgpu: 0, creatable: ["1414 : NVIDIA H200X-1-18C"]}
)";
constexpr const char* kSlice = "nvidia.com/NVIDIA_H200X-1-18C";

// Of such a write the kernel announces nothing (virtualisation-and-olm.md section 5): it is heard
// as a change of the file.
TEST_F(SandboxDevicePlugin, VgpusWithoutMediatedDevicesFollowTheirTypes) {
  RecordProperty("holds", "virtualisation-and-olm.md #39");
  Start(kVgpus);
  const auto client = Registered(kSlice);
  ASSERT_TRUE(WaitForList(*client, {"0000:41:00.4"}));
  tree_->SetVgpu("0000:41:00.5", "1414");
  ASSERT_TRUE(WaitForList(*client, {"0000:41:00.4", "0000:41:00.5"}));
  const auto answers = client->Allocate({{"0000:41:00.5"}});
  ASSERT_TRUE(answers) << answers.error().ToString();
  EXPECT_EQ(answers->front().envs.at("PCI_RESOURCE_NVIDIA_COM_NVIDIA_H200X-1-18C"), "0000:41:00.5");
  // The card is full: what its types are called, it tells no more.
  tree_->folder().Write("sys/devices/pci0000:60/0000:41:00.5/nvidia/creatable_vgpu_types",
                        "ID    : vGPU Name\n");
  tree_->SetVgpu("0000:41:00.4", "0");
  EXPECT_TRUE(WaitForList(*client, {"0000:41:00.5"}));
  EXPECT_FALSE(client->Allocate({{"0000:41:00.4"}})) << "no vGPU any more";
}

TEST_F(SandboxDevicePlugin, TypesOfAFullCardAreLearntFromTheManager) {
  Start(R"(
pci:
- {at: "0000:41:00.4", is: "10de:2335", driver: nvidia, group: 20, physfn: "0000:41:00.0", vgpu: 1414}
- {at: "0000:65:00.0", is: "10de:2236", driver: vfio-pci, group: 1}
)");
  Registered(kA10);
  tree_->folder().Write("run/nvidia/vgpu/types.json",
                        R"({"0000:41:00.0": {"1414": "NVIDIA H200X-1-18C"}})");
  const auto client = Registered(kSlice, 2);
  EXPECT_TRUE(WaitForList(*client, {"0000:41:00.4"}));
}

TEST_F(SandboxDevicePlugin, DevicesComeAndGoWithTheirNodes) {
  Start(kTwoGpus);
  const auto client = Registered(kA10);
  ASSERT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0"}));
  // Bound after the start: its node is the last that the kernel makes.
  tree_->AddPci(*codec::ParseYaml(
      R"({at: "0000:67:00.0", is: "10de:2236", driver: vfio-pci, group: 3, numa: 1})"));
  tree_->AddNode("vfio/3");
  EXPECT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0", "0000:67:00.0"}));
  // Another model has a resource of its own.
  tree_->AddPci(*codec::ParseYaml(
      R"({at: "0000:68:00.0", is: "10de:1eb8", driver: vfio-pci, group: 4, numa: 1})"));
  tree_->AddNode("vfio/4");
  const auto other = Registered("nvidia.com/TU104GL_TESLA_T4", 2);
  EXPECT_TRUE(WaitForList(*other, {"0000:68:00.0"}));
  // Given back to the driver.
  tree_->Bind("0000:67:00.0", "nvidia");
  tree_->RemoveNode("vfio/3");
  EXPECT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0"}));
}

TEST_F(SandboxDevicePlugin, ANodeThatIsGoneMakesItsDeviceUnhealthyUntilItIsBack) {
  RecordProperty("holds", "kubevirt-device-plugin.md #23");
  Start(kTwoGpus);
  const auto client = Registered(kA10);
  ASSERT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0"}));
  tree_->RemoveNode("vfio/2");
  EXPECT_TRUE(WaitForList(*client, {"0000:65:00.0", "!0000:66:00.0"}));
  EXPECT_THAT(client->Allocate({{"0000:66:00.0"}}).error().message,
              HasSubstr("/dev/vfio/2 is not there"));
  tree_->AddNode("vfio/2");
  EXPECT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0"}));
}

TEST_F(SandboxDevicePlugin, WhatCannotBeReadStaysAndIsReadAgain) {
  Start(kTwoGpus);
  const auto client = Registered(kA10);
  ASSERT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0"}));
  const auto driver = tree_->PciFolder("0000:66:00.0") / "driver";
  std::filesystem::remove(driver);
  std::filesystem::create_directory(driver);
  tree_->AddNode("vfio/other");  // something happens
  EXPECT_TRUE(WaitForList(*client, {"0000:65:00.0", "!0000:66:00.0"}));
  tree_->Bind("0000:66:00.0", "vfio-pci");  // without any event
  EXPECT_TRUE(WaitForList(*client, {"0000:65:00.0", "0000:66:00.0"}));
}

TEST_F(SandboxDevicePlugin, OneResourceThatIsRefusedHoldsNoOtherUp) {
  RecordProperty("holds", "kubevirt-device-plugin.md #8");
  Start("{}");
  kubelet_->Refuse(kA10, "not today");
  for (const char* device :
       {R"({at: "0000:65:00.0", is: "10de:2236", driver: vfio-pci, group: 1})",
        R"({at: "0000:68:00.0", is: "10de:1eb8", driver: vfio-pci, group: 4})"}) {
    tree_->AddPci(*codec::ParseYaml(device));
  }
  tree_->AddNode("vfio/vfio");
  tree_->AddNode("vfio/1");
  tree_->AddNode("vfio/4");
  kubelet_->WaitForRefusals(1);
  const auto client = Registered("nvidia.com/TU104GL_TESLA_T4");
  EXPECT_TRUE(WaitForList(*client, {"0000:68:00.0"}));
  kubelet_->Refuse(kA10, "");
  EXPECT_TRUE(WaitForList(*Registered(kA10, 2), {"0000:65:00.0"}));
}

TEST_F(SandboxDevicePlugin, VgpusAreAllocated) {
  RecordProperty("holds", "kubevirt-device-plugin.md #25");
  Start(R"(
pci: [{at: "0000:65:00.4", is: "10de:2236", driver: nvidia, group: 1, numa: 1}]
mdev: [{uuid: "1", type: vGPUId, parent: "0000:65:00.4"}, {uuid: "3", type: other, parent: "0000:65:00.4"}]
)");
  kubelet_->WaitForRegistrations(2);
  const auto client = Registered("nvidia.com/vGPUId", 2);
  const auto list = client->NextList();
  EXPECT_THAT(Texts(*list), ElementsAre("1"));
  EXPECT_EQ(list->front().numa_node, 1);
  const auto answer = client->Allocate({{"1"}});
  EXPECT_EQ(answer->front().envs.at("MDEV_PCI_RESOURCE_NVIDIA_COM_VGPUID"), "1");
  EXPECT_THAT(answer->front().devices,
              ElementsAre(rpc::DeviceSpec{"/dev/vfio", "/dev/vfio", "mrw"}));
  EXPECT_FALSE(client->Allocate({{"3"}})) << "of another type: refused, not left out";
}

TEST_F(SandboxDevicePlugin, KataGetsOneResourceAndItsSpecification) {
  RecordProperty("holds", "virtualisation-and-olm.md #56, #58");
  Start(R"(
pci:
- {at: "0000:05:00.0", is: "10de:2330", driver: vfio-pci, group: 8, numa: 0}
- {at: "0000:06:00.0", is: "10de:2335", driver: vfio-pci, group: 9, numa: 0}
)",
        Client::kKata);
  const auto client = Registered("nvidia.com/pgpu");
  EXPECT_EQ(kubelet_->registrations()[0].endpoint, "sandbox-pgpu.sock");
  const auto list = client->NextList();
  EXPECT_THAT(Texts(*list), ElementsAre("8", "9"));
  const auto answer = client->Allocate({{"9"}});
  EXPECT_TRUE(answer->front().envs.empty());
  EXPECT_THAT(answer->front().devices,
              ElementsAre(rpc::DeviceSpec{"/dev/vfio/vfio", "/dev/vfio/vfio", "mrw"},
                          rpc::DeviceSpec{"/dev/vfio/9", "/dev/vfio/9", "mrw"}));
  // It stands before the kubelet knows the resource.
  const auto cdi = base::ReadFile(tree_->folder().path() / "cdi/nvidia.com-pgpu.yaml");
  ASSERT_TRUE(cdi) << cdi.error().ToString();
  EXPECT_THAT(*cdi, HasSubstr("nvidia.com/pgpu"));
}

TEST(SandboxDevicePluginStart, NeedsTheDatabaseOfNames) {
  const NodeTree tree(codec::Json::object());
  Options options;
  options.pci_ids = tree.folder().path() / "missing";
  options.kubelet_socket = tree.folder().path() / "kubelet.sock";
  NodePaths paths;
  paths.sys = tree.root();
  paths.dev = tree.root();
  const io::StopSource stop;
  EXPECT_EQ(Daemon(options, paths, stop.token()).Run().error().code, base::Code::kNotFound);
  // Where no name comes of it, it is not needed.
  options.client = Client::kKata;
  options.gpu_alias = "pgpu";
  EXPECT_EQ(Daemon(options, paths, stop.token()).Run().error().code, base::Code::kNotFound);
  options.gpu_alias = "";
  options.switch_alias = "nvswitch";
  EXPECT_EQ(Daemon(options, paths, stop.token()).Run().error().code, base::Code::kNotFound);
  options.gpu_alias = "pgpu";
  options.client = Client::kKubevirt;
  EXPECT_EQ(Daemon(options, paths, stop.token()).Run().error().code, base::Code::kNotFound);
  options.client = Client::kKata;
  stop.Stop();
  EXPECT_TRUE(Daemon(options, paths, stop.token()).Run());
}

}  // namespace
}  // namespace pitcrew::node::sandbox_device_plugin

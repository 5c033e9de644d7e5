// What the node is told, on a real kube-apiserver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apiserver/api_server.h"
#include "node/vfio_manager/manager.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::vfio_manager {
namespace {

using ::pitcrew::testing::ApiServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two GPUs, and no IOMMU.
TEST(Events, TellTheNodeOnceWhatItsGpusHaveInCommon) {
  const test_support::TemporaryFolder folder;
  for (const std::string address : {"0000:17:00.0", "0000:65:00.0"}) {
    const auto inside = "sys/bus/pci/devices/" + address + "/";
    folder.Write(inside + "vendor", "0x10de\n");
    folder.Write(inside + "device", "0x2330\n");
    folder.Write(inside + "class", "0x030200\n");
  }
  folder.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
  const auto client = ApiServer::Shared().MakeClient();
  ASSERT_TRUE(client->Create(kube::kNodes, {{"metadata", {{"name", "vfio-node"}}}}));
  Options options;
  options.action = Action::kBind;
  options.all = true;
  options.root = folder.path();
  options.host_root = folder.path();
  options.node_name = "vfio-node";
  options.kubeconfig = ApiServer::Shared().kubeconfig();
  const auto done = vfio_manager::Run(options, SettingsOf(options), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, "DevicesFailed");
  kube::ListOptions of_node;
  of_node.field_selector = "involvedObject.name=vfio-node";
  const auto events = client->List({"", "v1", "events", "Event"}, "", of_node);
  ASSERT_TRUE(events) << events.error().ToString();
  ASSERT_EQ(events->items.size(), 1U);
  const auto& event = events->items.front();
  EXPECT_EQ(codec::FindString(event, {"type"}), "Warning");
  EXPECT_EQ(codec::FindString(event, {"reason"}), "IommuNotEnabled");
  EXPECT_THAT(codec::FindString(event, {"message"}),
              AllOf(HasSubstr("0000:17:00.0, 0000:65:00.0: "), HasSubstr("intel_iommu=on")));
}

TEST(Events, AServerThatIsNotThereFailsNothing) {
  const test_support::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "sys/bus/pci/devices");
  Options options;
  options.action = Action::kBind;
  options.all = true;
  options.root = folder.path();
  options.host_root = folder.path();
  options.node_name = "vfio-node";
  options.kubeconfig = "/nowhere/kubeconfig";
  EXPECT_TRUE(vfio_manager::Run(options, SettingsOf(options), {}));
}

}  // namespace
}  // namespace pitcrew::node::vfio_manager

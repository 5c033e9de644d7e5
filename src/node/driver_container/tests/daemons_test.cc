// Which daemons a driver has, and what they are told.
#include "node/driver_container/daemons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strings.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Places Below(const std::filesystem::path& folder) {
  return {.root = folder / "root", .sys = folder / "sys", .proc = folder / "proc"};
}

std::vector<std::string> Programs(const std::vector<Daemon>& daemons) {
  std::vector<std::string> programs;
  for (const auto& daemon : daemons) programs.push_back(daemon.program);
  return programs;
}

TEST(Fabric, IsFoundByWhatManagesIt) {
  RecordProperty("holds", "driver-lifecycle.md #116");
  const test_support::TemporaryFolder node;
  const Places places = Below(node.path());
  EXPECT_EQ(*FindFabric(places), Fabric::kNone);
  node.Write("proc/driver/nvidia-nvswitch/devices/0000:07:00.0", "");
  EXPECT_EQ(*FindFabric(places), Fabric::kSwitches);
  node.Write("sys/class/infiniband/mlx5_0/device/vpd", "a network card");
  EXPECT_EQ(*FindFabric(places), Fabric::kSwitches);
  node.Write("sys/class/infiniband/mlx5_1/device/vpd", std::string("\0\x01", 2) + "SW_MNG");
  EXPECT_EQ(*FindFabric(places), Fabric::kManagedSubnet);
}

TEST(Daemons, FollowTheFabric) {
  RecordProperty("holds", "driver-lifecycle.md #116");
  EXPECT_THAT(Programs(DaemonsOf({}, Fabric::kNone)), ElementsAre("nvidia-persistenced"));
  const auto switches = DaemonsOf({}, Fabric::kSwitches);
  EXPECT_THAT(Programs(switches), ElementsAre("nvidia-persistenced", "nv-fabricmanager"));
  EXPECT_THAT(switches.back().arguments,
              ElementsAre("-c", "/usr/share/nvidia/nvswitch/fabricmanager.cfg"));
  const auto subnet = DaemonsOf({}, Fabric::kManagedSubnet);
  EXPECT_THAT(Programs(subnet),
              ElementsAre("nvidia-persistenced", "nvidia-fabricmanager-start.sh"));
  EXPECT_THAT(subnet.back().arguments, ::testing::Contains("/usr/share/nvidia/nvlsm/nvlsm.conf"));
}

TEST(Daemons, OfAGuestLicenseItsVgpus) {
  RecordProperty("holds", "driver-lifecycle.md #118");
  Options options;
  options.is_vgpu_guest = true;
  options.architecture = "x86_64";
  const auto daemons = DaemonsOf(options, Fabric::kNone);
  EXPECT_THAT(Programs(daemons),
              ElementsAre("nvidia-persistenced", "nvidia-gridd", "nvidia-topologyd"));
  EXPECT_EQ(daemons[1].environment.at("LD_LIBRARY_PATH"), "/usr/lib/x86_64-linux-gnu/nvidia/gridd");
  EXPECT_FALSE(daemons[2].required);
}

TEST(FabricManagerConfig, HasEachSettingOnce) {
  RecordProperty("holds", "driver-lifecycle.md #115");
  EXPECT_EQ(EditFabricManagerConfig("# modes\nFABRIC_MODE=0\nLOG_LEVEL=4\n",
                                    {{"FABRIC_MODE", "1"}, {"NEW", "x"}, {"", "y"}}),
            "# modes\nFABRIC_MODE=1\nLOG_LEVEL=4\nNEW=x\n");
  EXPECT_EQ(EditFabricManagerConfig("FABRIC_MODE_RESTART=0\n", {{"FABRIC_MODE", "1"}}),
            "FABRIC_MODE_RESTART=0\nFABRIC_MODE=1\n");
}

TEST(RunningDaemons, AreThoseWhosePidFileIsTheirs) {
  const test_support::TemporaryFolder node;
  const Places places = Below(node.path());
  EXPECT_THAT(RunningDaemons(places), IsEmpty());
  node.Write("root/var/run/nvidia-persistenced/nvidia-persistenced.pid", "41\n");
  node.Write("root/var/run/nvidia-fabricmanager/nv-fabricmanager.pid", "42\n");
  node.Write("root/var/run/nvidia-gridd/nvidia-gridd.pid", "not a number\n");
  node.Write("proc/41/comm", "nvidia-persiste\n");
  // An old file: its number is somebody else's by now.
  node.Write("proc/42/comm", "postgres\n");
  EXPECT_THAT(RunningDaemons(places), ElementsAre(41));
}

TEST(StopDaemons, LeavesForeignProcessesAlone) {
  const test_support::TemporaryFolder node;
  const Places places = Below(node.path());
  // This test itself: it would end with a signal.
  const std::string own = std::to_string(::getpid());
  node.Write("root/var/run/nvidia-persistenced/nvidia-persistenced.pid", own + "\n");
  node.Write("proc/" + own + "/comm", "daemons_test\n");
  EXPECT_TRUE(StopDaemons(places));
}

}  // namespace
}  // namespace pitcrew::node::driver_container

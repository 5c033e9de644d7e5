// Who holds the driver's modules, over a tree of sysfs; loading them is tried in tests/kernel.
#include "node/driver_container/kernel_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DriverModules, AreReadWithWhatHoldsThem) {
  const test_support::TemporaryFolder sys;
  EXPECT_THAT(*ReadDriverModules(sys.path()), IsEmpty());
  sys.Write("module/nvidia/refcnt", "2\n");
  sys.Write("module/nvidia/holders/nvidia_uvm", "");
  sys.Write("module/nvidia_uvm/refcnt", "0\n");
  const auto modules = ReadDriverModules(sys.path());
  ASSERT_EQ(modules->size(), 2U);
  EXPECT_EQ(modules->at("nvidia").references, 2U);
  EXPECT_THAT(modules->at("nvidia").holders, ElementsAre("nvidia_uvm"));
}

TEST(DriverModules, AreADriverWhenNoneIsMissingThatIsLoadedByOurselves) {
  LoadedModules modules = {{"nvidia", {}}, {"nvidia_uvm", {}}, {"nvidia_modeset", {}}};
  EXPECT_TRUE(IsWhole(modules));
  EXPECT_FALSE(IsWhole({}));
  for (const char* missing : {"nvidia", "nvidia_uvm", "nvidia_modeset"}) {
    auto some = modules;
    some.erase(missing);
    EXPECT_FALSE(IsWhole(some)) << missing;
  }
}

TEST(UsedModules, AreThoseThatProgramsOrForeignModulesHold) {
  RecordProperty("holds", "driver-lifecycle.md #112");
  LoadedModules modules = {{"nvidia", {2, {"nvidia_modeset", "nvidia_uvm"}}},
                           {"nvidia_uvm", {0, {}}},
                           {"nvidia_modeset", {1, {"nvidia_drm"}}},
                           {"nvidia_drm", {0, {}}}};
  EXPECT_TRUE(RefuseUsedModules(modules));
  modules["nvidia_uvm"].references = 1;
  auto refused = RefuseUsedModules(modules);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "DriverInUse");
  EXPECT_THAT(refused.error().message, HasSubstr("nvidia_uvm has 1 uses by programs"));
  modules["nvidia_uvm"].references = 0;
  modules["nvidia"] = {3, {"gdrdrv", "nvidia_modeset", "nvidia_uvm"}};
  refused = RefuseUsedModules(modules);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("nvidia is held by gdrdrv"));
  EXPECT_TRUE(RefuseUsedModules({}));
}

TEST(ForeignUses, AreSeenWhileDaemonsHaveTheDriverOpen) {
  LoadedModules modules = {{"nvidia", {5, {"gdrdrv", "nvidia_fs", "nvidia_uvm"}}},
                           {"nvidia_uvm", {0, {}}},
                           {"nvidia_fs", {0, {}}},
                           {"gdrdrv", {0, {}}}};
  // Two uses of daemons, which cannot be told from those of programs.
  EXPECT_FALSE(RefuseUsedModules(modules));
  EXPECT_TRUE(RefuseForeignUses(modules));
  modules["gdrdrv"].references = 1;
  auto refused = RefuseForeignUses(modules);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "DriverInUse");
  EXPECT_THAT(refused.error().message, HasSubstr("gdrdrv has 1 uses by programs"));
  modules["gdrdrv"].references = 0;
  modules["nvidia"].holders.emplace_back("somebodys");
  refused = RefuseForeignUses(modules);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("nvidia is held by somebodys"));
}

// Before 2.17.5 nvidia_fs looked the driver's symbols up, which makes uses that nobody holds.
TEST(ForeignUses, ThoseOfNvidiaFsAreNoPrograms) {
  LoadedModules modules = {
      {"nvidia", {8, {"nvidia_uvm"}}}, {"nvidia_uvm", {0, {}}}, {"nvidia_fs", {0, {}}}};
  EXPECT_TRUE(RefuseUsedModules(modules));
  modules["nvidia_fs"].references = 1;
  const auto refused = RefuseUsedModules(modules);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("nvidia_fs has 1 uses by programs"));
  modules.erase("nvidia_fs");
  EXPECT_FALSE(RefuseUsedModules(modules));
}

TEST(DriverModules, StandBeforeThoseThatTheyHold) {
  std::vector<std::string_view> names;
  for (const auto& member : DriverModules()) names.push_back(member.name);
  EXPECT_THAT(names, ElementsAre("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia_peermem",
                                 "nvidia_fs", "gdrdrv", "nvidia"));
}

TEST(FirmwareFolder, IsSetWhereTheKernelHasNone) {
  RecordProperty("holds", "driver-lifecycle.md #117");
  const test_support::TemporaryFolder sys;
  Options options;
  options.places.sys = sys.path();
  sys.Write("module/firmware_class/parameters/path", "\n");
  ASSERT_TRUE(SetFirmwareFolder(options));
  const auto file = sys.path() / "module/firmware_class/parameters/path";
  EXPECT_EQ(*base::ReadFile(file), "/run/nvidia/driver/lib/firmware");
  sys.Write("module/firmware_class/parameters/path", "/opt/firmware\n");
  ASSERT_TRUE(SetFirmwareFolder(options));
  EXPECT_EQ(*base::ReadFile(file), "/opt/firmware\n");
}

TEST(DirectRdma, NeedsANetworkCardAndTheWish) {
  const test_support::TemporaryFolder sys;
  Options options;
  options.places.sys = sys.path();
  EXPECT_FALSE(*HasDirectRdma(options));
  options.gpu_direct_rdma = true;
  for (const auto& [file, value] : {std::pair("vendor", "0x10de"), std::pair("device", "0x2330"),
                                    std::pair("class", "0x030200")}) {
    sys.Write(std::string("bus/pci/devices/0000:01:00.0/") + file, std::string(value) + "\n");
    sys.Write(std::string("bus/pci/devices/0000:02:00.0/") + file, std::string(value) + "\n");
  }
  EXPECT_FALSE(*HasDirectRdma(options));
  sys.Write("bus/pci/devices/0000:02:00.0/vendor", "0x15b3\n");
  EXPECT_TRUE(*HasDirectRdma(options));
}

}  // namespace
}  // namespace pitcrew::node::driver_container

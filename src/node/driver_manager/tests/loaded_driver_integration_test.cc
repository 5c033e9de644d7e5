// The modules of a loaded driver, and nouveau, over a node's tree in a temporary folder; on a real
// kernel: tests/kernel/scenarios/driver_manager.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/driver_manager/tests/support_manager.h"

namespace pitcrew::node::driver_manager {
namespace {

using own_node::LabelOf;
using ::testing::ElementsAre;

// driver-lifecycle.md 12.2, number 37: modules go as one.
class LoadedDriverTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    for (const auto* module :
         {"nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia_fs", "gdrdrv"}) {
      Load(module, 0);
    }
    Load("nvidia_modeset", 1, {"nvidia_drm"});
    // nvidia_fs has a use of it for each symbol that it has looked up, and is no holder.
    Load("nvidia", 3 + 6, {"gdrdrv", "nvidia_modeset", "nvidia_uvm"});
    options_.load_module = [this](const std::string& module) -> base::Status {
      loaded_.push_back(module);
      return {};
    };
  }
  void Load(const std::string& module, int references,
            const std::vector<std::string>& holders = {}) {
    root_.Write("sys/module/" + module + "/refcnt", std::to_string(references) + "\n");
    for (const auto& holder : holders)
      root_.Write("sys/module/" + module + "/holders/" + holder, "");
  }
  // Everything is as it was, for people and operands.
  void ExpectUntouched() {
    EXPECT_THAT(unloaded_, ::testing::IsEmpty());
    EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
    EXPECT_EQ(codec::Find(Node(), {"spec", "unschedulable"}), nullptr);
  }
  std::vector<std::string> loaded_;
};

TEST_F(LoadedDriverTest, GoesInTheOrderOfItsModules) {
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(unloaded_, ElementsAre("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia_fs",
                                     "gdrdrv", "nvidia"));
}

// driver-lifecycle.md 12.2, number 43: a new driver that fails half-way is not the one of before.
TEST_F(LoadedDriverTest, IsForgottenWhenItIsGoneAndOnlyThen) {
  const auto digest = root_.Write("run/nvidia-driver.state", "122\n");
  Load("nvidia_uvm", 1);
  ASSERT_FALSE(Run());
  EXPECT_TRUE(std::filesystem::exists(digest));
  Load("nvidia_uvm", 0);
  ASSERT_TRUE(Run());
  EXPECT_FALSE(std::filesystem::exists(digest));
}

TEST_F(LoadedDriverTest, StaysWholeWhileAProgramHoldsOneOfItsModules) {
  Load("nvidia_uvm", 2);
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "DriverStillInUse");
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("nvidia_uvm has 2 uses by programs"));
  EXPECT_TRUE(HasEvent("DriverStillInUse"));
  ExpectUntouched();
}

TEST_F(LoadedDriverTest, StaysWholeWhileAForeignModuleHoldsIt) {
  Load("nvidia", 4 + 6, {"efa"});
  EXPECT_THAT(Run().error().message, ::testing::HasSubstr("nvidia is held by efa"));
  ExpectUntouched();
}

// Uses of nvidia may be those of nvidia_fs: who has its devices open tells.
TEST_F(LoadedDriverTest, StaysWholeWhileADeviceIsOpenAndWhoHasItIsNamed) {
  root_.Write("host/proc/4242/comm", "python3\n");
  std::filesystem::create_directories(options_.host_root / "proc/4242/fd");
  // Any character device that is there plays the GPU's.
  root_.Write("host/proc/devices", "Character devices:\n  1 nvidia\n");
  std::filesystem::create_symlink("/dev/null", options_.host_root / "proc/4242/fd/3");
  EXPECT_THAT(Run().error().message,
              ::testing::HasSubstr("python3 (process 4242) has /dev/null open"));
  ExpectUntouched();
}

TEST_F(LoadedDriverTest, ComesBackWhereAModuleStaysInTheEnd) {
  busy_module_ = "nvidia_uvm";
  options_.auto_drain = false;
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "DriverStillInUse");
  EXPECT_THAT(refused.error().message,
              ::testing::HasSubstr("nvidia_uvm; loaded again: nvidia_modeset, nvidia_drm"));
  EXPECT_THAT(unloaded_, ElementsAre("nvidia_drm", "nvidia_modeset"));
  EXPECT_THAT(loaded_, ElementsAre("nvidia_modeset", "nvidia_drm"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
}

// Of the driver's own files nothing is left, and the host has no driver.
TEST_F(LoadedDriverTest, WhatCannotBeLoadedAgainIsTold) {
  busy_module_ = "nvidia_modeset";
  options_.load_module = nullptr;
  options_.auto_drain = false;
  EXPECT_THAT(Run().error().message,
              ::testing::HasSubstr("gone, and could not be loaded again: nvidia_drm ("));
}

// The kernel's own driver of these GPUs.
TEST_F(ManagerTest, NouveauIsTakenOutOfTheWay) {
  root_.Write("sys/module/nouveau/refcnt", "0\n");
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(unloaded_, ElementsAre("nouveau"));
}

// driver-lifecycle.md 12.2, number 38: upstream finds out when the driver is gone already.
TEST_F(LoadedDriverTest, StaysWhereNouveauDoes) {
  Load("nouveau", 1);
  busy_module_ = "nouveau";
  MakePod("mine", "training", {{"limits", {{"nvidia.com/gpu", "1"}}}});
  options_.drain_force = true;
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "ModuleInUse");
  EXPECT_TRUE(HasEvent("ModuleInUse"));
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "mine"}));
  ExpectUntouched();
  busy_module_ = "";
  ASSERT_TRUE(Run());
  EXPECT_EQ(unloaded_.front(), "nouveau");
}

TEST_F(ManagerTest, NouveauWhoseUsesCannotBeReadIsNotTakenForAbsent) {
  root_.Write("sys/module/nouveau/refcnt", "many\n");
  EXPECT_FALSE(Run());
  EXPECT_THAT(unloaded_, ::testing::IsEmpty());
}

}  // namespace
}  // namespace pitcrew::node::driver_manager

// The files by which a driver container is known on its node.
#include "node/driver_container/run_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

class RunFilesTest : public ::testing::Test {
 protected:
  [[nodiscard]] Places places() const {
    return {.root = node_.path() / "root", .run = node_.path() / "run"};
  }
  [[nodiscard]] std::string Read(const std::string& name) const {
    const auto text = base::ReadFile(node_.path() / "run" / name);
    return text ? *text : "nothing";
  }
  test_support::TemporaryFolder node_;
};

TEST_F(RunFilesTest, OneContainerHasTheLock) {
  RecordProperty("holds", "driver-lifecycle.md #109");
  {
    const auto first = RunFiles::Take(places());
    ASSERT_TRUE(first.has_value());
    const auto second = RunFiles::Take(places());
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().reason, "DriverContainerRunning");
    EXPECT_EQ(Read("nvidia-driver.pid"), std::to_string(::getpid()) + "\n");
  }
  EXPECT_TRUE(RunFiles::Take(places()).has_value());
}

TEST_F(RunFilesTest, ReadinessOfAnEarlierContainerIsTakenBack) {
  RecordProperty("holds", "driver-lifecycle.md #110");
  node_.Write("run/validations/.driver-ctr-ready", "GDS_ENABLED: false\n");
  auto files = RunFiles::Take(places());
  ASSERT_TRUE(files->SetNotReady());
  EXPECT_EQ(Read("validations/.driver-ctr-ready"), "nothing");
  EXPECT_EQ(Read("validations/.driver-daemons-status"), "NotReady\n");
  ASSERT_TRUE(files->SetReady());
  EXPECT_EQ(Read("validations/.driver-daemons-status"), "Ready\n");
}

TEST_F(RunFilesTest, TheDigestIsALine) {
  RecordProperty("holds", "driver-lifecycle.md #110");
  auto files = RunFiles::Take(places());
  EXPECT_EQ(*files->ReadDigest(), "");
  ASSERT_TRUE(files->StoreDigest("123"));
  EXPECT_EQ(Read("nvidia-driver.state"), "123\n");
  EXPECT_EQ(*files->ReadDigest(), "123");
  ASSERT_TRUE(files->ForgetDigest());
  EXPECT_EQ(*files->ReadDigest(), "");
  ASSERT_TRUE(files->ForgetDigest());
}

TEST_F(RunFilesTest, TheKernelHookIsThereWhereItsFolderIs) {
  auto files = RunFiles::Take(places());
  ASSERT_TRUE(files->InstallKernelHook());
  EXPECT_FALSE(std::filesystem::exists(node_.path() / "root/run/kernel"));
  node_.Write("root/run/kernel/postinst.d/other", "");
  ASSERT_TRUE(files->InstallKernelHook());
  const auto hook = node_.path() / "root/run/kernel/postinst.d/update-nvidia-driver";
  EXPECT_NE(base::ReadFile(hook)->find("nvidia-driver update --kernel"), std::string::npos);
  EXPECT_NE(std::filesystem::status(hook).permissions() & std::filesystem::perms::owner_exec,
            std::filesystem::perms::none);
  ASSERT_TRUE(files->Remove());
  EXPECT_FALSE(std::filesystem::exists(hook));
  EXPECT_TRUE(std::filesystem::exists(hook.parent_path() / "other"));
}

TEST_F(RunFilesTest, AtTheEndTheDigestAloneStays) {
  auto files = RunFiles::Take(places());
  ASSERT_TRUE(files->SetNotReady());
  ASSERT_TRUE(files->StoreDigest("123"));
  ASSERT_TRUE(files->Remove());
  EXPECT_EQ(Read("nvidia-driver.pid"), "nothing");
  EXPECT_EQ(Read("validations/.driver-daemons-status"), "nothing");
  EXPECT_EQ(Read("nvidia-driver.state"), "123\n");
}

}  // namespace
}  // namespace pitcrew::node::driver_container

#include "node/validations/status_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "base/file.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validations {
namespace {

using namespace std::chrono_literals;
using test_support::TemporaryFolder;

TEST(StatusFolder, DriverReadyOfAHostDriver) {
  RecordProperty("holds", "validator.md #23");
  EXPECT_EQ(DriverReadyContent(host::HostDriver("/")),
            "IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\nDRIVER_ROOT_CTR_PATH=/host\n"
            "NVIDIA_DEV_ROOT=/\nDEV_ROOT_CTR_PATH=/host\n");
}

TEST(StatusFolder, DriverReadyOfAContainer) {
  RecordProperty("holds", "validator.md #24");
  const TemporaryFolder root;
  std::filesystem::create_directories(root.path() / "dev");
  EXPECT_EQ(DriverReadyContent(*host::ContainerDriver("/", "/run/nvidia/driver", root.path())),
            "IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
            "DRIVER_ROOT_CTR_PATH=/driver-root\nNVIDIA_DEV_ROOT=/run/nvidia/driver\n"
            "DEV_ROOT_CTR_PATH=/driver-root\n");
}

TEST(StatusFolder, WritesWholeFilesWithUpstreamsModes) {
  RecordProperty("holds", "validator.md #25, section 2");
  const TemporaryFolder root;
  const StatusFolder status(root.path() / "validations");
  ASSERT_TRUE(status.Prepare(false));
  ASSERT_TRUE(status.Write(kDriverReady, "A=b\n"));
  ASSERT_TRUE(status.Write(kToolkitReady));
  struct stat info{};
  ASSERT_EQ(::stat((status.path() / kDriverReady).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(*base::ReadFile(status.path() / kToolkitReady), "");
  EXPECT_TRUE(*status.Has(kToolkitReady));
  ASSERT_TRUE(status.Prepare(true));
  EXPECT_FALSE(*status.Has(kToolkitReady));
  EXPECT_TRUE(status.Remove(kToolkitReady)) << "removing what is not there";
}

TEST(StatusFolder, FlagsOfTheDriverContainer) {
  RecordProperty("holds", "validator.md #6");
  EXPECT_EQ(ParseDriverContainerReady("")->size(), 0U);
  const auto flags = ParseDriverContainerReady("GDRCOPY_ENABLED: false\nGDS_ENABLED: true\n");
  ASSERT_TRUE(flags);
  EXPECT_TRUE(flags->at("GDS_ENABLED"));
  EXPECT_FALSE(ParseDriverContainerReady("GDS_ENABLED: maybe\n"));
  EXPECT_FALSE(ParseDriverContainerReady("{"));
  EXPECT_FALSE(ParseDriverContainerReady("- a\n"));
}

TEST(StatusFolder, AFileIsWaitedForBeforeItsFolderIsThere) {
  const TemporaryFolder root;
  const StatusFolder status(root.path() / "run/nvidia/validations");
  std::thread writer([&] { EXPECT_TRUE(status.Write(kDriverReady, "IS_HOST_DRIVER=true\n")); });
  EXPECT_TRUE(
      status.Await(kDriverReady, {}, std::chrono::steady_clock::now() + test_support::kPatience));
  writer.join();
  EXPECT_TRUE(status.Await(kDriverReady, {})) << "it is there already";
}

TEST(StatusFolder, WaitingEndsAtTheDeadlineAndOnStop) {
  const TemporaryFolder root;
  const StatusFolder status(root.path());
  const auto late = status.Await(kToolkitReady, {}, std::chrono::steady_clock::now());
  EXPECT_EQ(late.error().reason, "NotValidated");
  EXPECT_NE(late.error().message.find("toolkit-ready"), std::string::npos);
  const io::StopSource stop;
  stop.Stop();
  EXPECT_EQ(status.Await(kToolkitReady, stop.token()).error().code, base::Code::kCancelled);
}

}  // namespace
}  // namespace pitcrew::node::validations

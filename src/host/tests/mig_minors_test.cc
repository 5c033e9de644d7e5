#include "host/mig_minors.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"

namespace pitcrew::host {
namespace {

TEST(MigMinors, ReadsEveryFormAndSkipsTheRest) {  // device-plugin.md section 8.3
  const auto minors = ParseMigMinors(
      "config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\ngpu7/gi13/ci1/access 120\n"
      "\nnonsense\ngpuX/gi0/access 9\ngpu0/gi1/access many\n");
  EXPECT_EQ(minors.config, 1U);
  EXPECT_EQ(minors.monitor, 2U);
  EXPECT_EQ(minors.gpu_instances.size(), 1U);
  EXPECT_EQ(minors.gpu_instances.at({0, 0}), 3U);
  EXPECT_EQ(minors.compute_instances.at({0, 0, 0}), 4U);
  EXPECT_EQ(minors.compute_instances.at({7, 13, 1}), 120U);
}

TEST(MigMinors, ADriverWithoutMigHasNone) {
  EXPECT_EQ(ReadMigMinors({"/does/not/exist"}).value(), MigMinors());
  EXPECT_EQ(ReadMigMinors({}).value(), MigMinors());
}

TEST(MigMinors, TheFirstProcThatHasTheListCounts) {
  std::string name = (std::filesystem::temp_directory_path() / "pitcrew-proc-XXXXXX").string();
  const std::filesystem::path root = ::mkdtemp(name.data());
  const auto file = "driver/nvidia-caps/mig-minors";
  ASSERT_TRUE(base::WriteFileAtomically(root / "second" / file, "config 1\n"));
  ASSERT_TRUE(base::WriteFileAtomically(root / "third" / file, "config 7\n"));
  const auto minors = ReadMigMinors({root / "first", root / "second", root / "third"});
  std::filesystem::remove_all(root);
  ASSERT_TRUE(minors) << minors.error().message;
  EXPECT_EQ(minors->config, 1U);
}

}  // namespace
}  // namespace pitcrew::host

// What modules are told by the files of /drivers.
#include "node/driver_container/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ModuleParameters, AreOneLineOfModprobeForEachModule) {
  RecordProperty("holds", "driver-lifecycle.md #107");
  const test_support::TemporaryFolder drivers;
  const test_support::TemporaryFolder root;
  drivers.Write("nvidia.conf", "NVreg_A=1\nNVreg_B=2");
  const auto parameters = ReadModuleParameters(drivers.path(), 580);
  ASSERT_TRUE(parameters.has_value());
  ASSERT_TRUE(WriteModuleParameters(*parameters, root.path()));
  EXPECT_EQ(*base::ReadFile(root.path() / "etc/modprobe.d/nvidia.conf"),
            "options nvidia NVreg_CoherentGPUMemoryMode=driver NVreg_A=1 NVreg_B=2\n");
  for (const char* module : {"nvidia-uvm", "nvidia-modeset", "nvidia-peermem"}) {
    EXPECT_FALSE(
        std::filesystem::exists(root.path() / "etc/modprobe.d" / (std::string(module) + ".conf")));
  }
}

TEST(ModuleParameters, WithoutFilesTellOfCoherentMemoryAlone) {
  const test_support::TemporaryFolder drivers;
  const auto parameters = ReadModuleParameters(drivers.path(), 580);
  ASSERT_EQ(parameters->of_module.size(), 1U);
  EXPECT_THAT(parameters->of_module.at("nvidia"),
              ElementsAre("NVreg_CoherentGPUMemoryMode=driver"));
  EXPECT_THAT(ReadModuleParameters(drivers.path(), 579)->of_module, IsEmpty());
  EXPECT_THAT(ReadModuleParameters(drivers.path() / "missing", 579)->of_module, IsEmpty());
}

TEST(ModuleParameters, OfOtherModulesAreTheirsAlone) {
  const test_support::TemporaryFolder drivers;
  drivers.Write("nvidia-uvm.conf", "uvm_disable_hmm=1\n");
  drivers.Write("nvidia-modeset.conf", "# nothing\n\n");
  const auto parameters = ReadModuleParameters(drivers.path(), 550);
  ASSERT_EQ(parameters->of_module.size(), 1U);
  EXPECT_THAT(parameters->of_module.at("nvidia-uvm"), ElementsAre("uvm_disable_hmm=1"));
}

TEST(ModuleParameters, BlankLinesAndCommentsAreNone) {
  EXPECT_THAT(ParseParameters("\n  a=1 \n# b=2\n\nc=3"), ElementsAre("a=1", "c=3"));
  EXPECT_THAT(ParseParameters(""), IsEmpty());
}

TEST(ModuleParameters, SayWhetherGpusHaveFirmware) {
  const test_support::TemporaryFolder drivers;
  drivers.Write("nvidia.conf", "NVreg_EnableGpuFirmware=01\n");
  EXPECT_TRUE(ReadModuleParameters(drivers.path(), 580)->uses_firmware);
  drivers.Write("nvidia.conf", "NVreg_A=1\nNVreg_EnableGpuFirmware=0\n");
  EXPECT_FALSE(ReadModuleParameters(drivers.path(), 580)->uses_firmware);
}

}  // namespace
}  // namespace pitcrew::node::driver_container

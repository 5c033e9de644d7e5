// What a driver container finds in its image.
#include "node/driver_container/facts.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

class ImageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.Write("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n");
    node_.Write("drivers/NVIDIA-Linux-x86_64-580.95.05.run", "a run file");
    fs::create_directories(node_.path() / "root");
    options_.version = "580.95.05";
    options_.architecture = "x86_64";
    options_.places = {.root = node_.path() / "root",
                       .sys = node_.path() / "sys",
                       .proc = node_.path() / "proc",
                       .drivers = node_.path() / "drivers"};
  }
  // As the installer leaves them.
  void InstallPrograms() const {
    const fs::path smi = node_.Write("root/usr/bin/nvidia-smi", "#!/bin/sh\n");
    fs::permissions(smi, fs::perms::owner_all);
    node_.Write("root/usr/lib64/libnvidia-ml.so.580.95.05", "a library");
  }
  test_support::TemporaryFolder node_;
  Options options_;
};

TEST_F(ImageTest, HasTheRunFileOfItsVersionAndNothingElseYet) {
  const auto facts = ObserveImage(options_);
  ASSERT_TRUE(facts.has_value()) << facts.error().ToString();
  EXPECT_EQ(facts->kernel, "6.1.0-56-amd64");
  EXPECT_TRUE(facts->run_file.is_present());
  EXPECT_TRUE(facts->module_version.is_absent());
  EXPECT_FALSE(facts->has_programs);
  EXPECT_FALSE(facts->has_kernel_headers);
}

TEST_F(ImageTest, ProgramsAreThoseOfItsVersion) {
  InstallPrograms();
  EXPECT_TRUE(ObserveImage(options_)->has_programs);
  options_.version = "590.10.01";
  EXPECT_FALSE(ObserveImage(options_)->has_programs);
}

TEST_F(ImageTest, AHalfThatAKilledContainerHasInstalledIsNothing) {
  InstallPrograms();
  const fs::path marker = IncompleteMarker(options_.places);
  EXPECT_EQ(marker, node_.path() / "root/var/lib/nvidia-driver/incomplete");
  node_.Write(marker, "580.95.05\n");
  EXPECT_FALSE(ObserveImage(options_)->has_programs);
  fs::remove(marker);
  EXPECT_TRUE(ObserveImage(options_)->has_programs);
}

}  // namespace
}  // namespace pitcrew::node::driver_container

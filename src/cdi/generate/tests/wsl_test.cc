#include "cdi/generate/wsl.h"

#include <gtest/gtest.h>

#include "cdi/format.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::cdi_generate {
namespace {

using Strings = std::vector<std::string>;

constexpr const char* kStore = "/usr/lib/wsl/drivers/nv";

class WslTest : public ::testing::Test {
 protected:
  WslTest() {
    for (const auto* name :
         {"libcuda.so.1.1", "libcuda_loader.so", "libnvidia-ml.so.1", "nvidia-smi", "nvcubins.bin",
          "libextra.so.1", "more.bin", "x.dll", "readme.txt"}) {
      folder_.Write(InStore(name), "x");
    }
    folder_.Write("usr/lib/wsl/drivers/other/libother.so", "x");
    folder_.Write("usr/lib/wsl/lib/libdxcore.so", "x");
  }
  static std::string InStore(const std::string& name) {
    return std::string("usr/lib/wsl/drivers/nv/") + name;
  }
  [[nodiscard]] base::Result<WslFiles> Locate(const Strings& stores) const {
    LocateOptions options;
    options.driver_root = options.dev_root = host::Root(folder_.path());
    return LocateWsl(options, stores);
  }
  // Device nodes are made by root alone.
  [[nodiscard]] cdi::Spec Generate() const {
    auto files = Locate({kStore});
    files->device = Node{"/dev/dxg", 10, 63, 0666, 0};
    return GenerateWsl(*files, {}).value_or(cdi::Spec());
  }
  test_support::TemporaryFolder folder_;
};

TEST_F(WslTest, TheStoreIsTheOneWithCuda) {
  EXPECT_EQ(Locate({"/usr/lib/wsl/drivers/other", kStore})->store, kStore);
  EXPECT_EQ(Locate({"/usr/lib/wsl/drivers/other"}).error().reason, "WslDriverNotFound");
  EXPECT_EQ(Locate({}).error().reason, "WslDriverNotFound");
}

TEST_F(WslTest, TheDriverAndWhatElseIsInItsStore) {
  const auto files = Locate({kStore});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->driver.size(), 5u);
  Strings more;
  for (const auto& file : files->more) more.push_back(file.path);
  EXPECT_EQ(more, (Strings{"/usr/lib/wsl/drivers/nv/libextra.so.1",
                           "/usr/lib/wsl/drivers/nv/more.bin", "/usr/lib/wsl/drivers/nv/x.dll"}));
  EXPECT_EQ(files->missing, (Strings{"/usr/lib/wsl/drivers/nv/libnvidia-ptxjitcompiler.so.1",
                                     "/usr/lib/wsl/drivers/nv/libnvidia-ml_loader.so",
                                     "/usr/lib/wsl/drivers/nv/libnvdxgdmal.so.1"}));
  EXPECT_FALSE(files->device);
  EXPECT_EQ(GenerateWsl(*files, {}).error().reason, "NoDeviceNodes");
}

TEST_F(WslTest, OneDeviceWithLinkAndCache) {
  RecordProperty("holds", "container-toolkit.md #96");
  const auto spec = Generate();
  EXPECT_TRUE(cdi::Validate(spec));
  ASSERT_EQ(spec.devices.size(), 1u);
  EXPECT_EQ(spec.devices[0].name, "all");
  EXPECT_EQ(spec.devices[0].edits.device_nodes[0].path, "/dev/dxg");
  EXPECT_EQ(spec.edits.mounts.size(), 9u);
  EXPECT_EQ(spec.edits.env, Strings{"NVIDIA_VISIBLE_DEVICES=void"});
  ASSERT_EQ(spec.edits.hooks.size(), 2u);
  EXPECT_EQ(spec.edits.hooks[0].args,
            (Strings{"nvidia-cdi-hook", "create-symlinks", "--link",
                     "/usr/lib/wsl/drivers/nv/nvidia-smi::/usr/bin/nvidia-smi"}));
  EXPECT_EQ(spec.edits.hooks[1].args, (Strings{"nvidia-cdi-hook", "update-ldcache", "--folder",
                                               kStore, "--folder", "/usr/lib/wsl/lib"}));
}

TEST_F(WslTest, WithoutTheProgramThereIsNoLink) {
  RecordProperty("holds", "container-toolkit.md #96");
  std::filesystem::remove(folder_.path() / InStore("nvidia-smi"));
  const auto spec = Generate();
  ASSERT_EQ(spec.edits.hooks.size(), 1u);
  EXPECT_EQ(spec.edits.hooks[0].args[1], "update-ldcache");
}

}  // namespace
}  // namespace pitcrew::cdi_generate

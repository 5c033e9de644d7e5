#include "cdi/generate/generate.h"

#include <gtest/gtest.h>

#include "cdi/generate/edits.h"
#include "cdi/generate/locate.h"

namespace pitcrew::cdi_generate {
namespace {

using Names = std::vector<std::string>;

gpu::Inventory OneGpu() {
  gpu::Inventory inventory;
  inventory.driver_version = "999.88.77";
  gpu::Device device;
  device.uuid = "GPU-1";
  inventory.devices.push_back(device);
  return inventory;
}

DriverFiles Files() {
  DriverFiles files;
  files.version = "999.88.77";
  files.library_folders = {"/usr/lib64"};
  files.libraries = {{"/usr/lib64/libcuda.so.999.88.77", "", "libcuda.so.1", {}}};
  files.nodes = {{"/dev/nvidia0", 195, 0, 0666, 0}};
  return files;
}

Names DeviceNames(const Options& options) {
  const auto generated = GenerateGpus(OneGpu(), Files(), options);
  Names names;
  if (!generated) return {generated.error().reason};
  for (const auto& device : generated->spec.devices) names.push_back(device.name);
  return names;
}

Names HookNames(const Options& options) {
  const auto generated = GenerateGpus(OneGpu(), Files(), options);
  Names names;
  for (const auto& hook : generated->spec.edits.hooks) names.push_back(hook.args[1]);
  return names;
}

// container-toolkit.md 6.4.
TEST(Generate, NamesOfDevices) {
  Options options;
  EXPECT_EQ(DeviceNames(options), (Names{"0", "GPU-1", "all"}));
  options.naming = {Naming::kTypeIndex};
  options.merged_device = false;
  EXPECT_EQ(DeviceNames(options), Names{"gpu0"});
}

TEST(Generate, HooksInOrderAndDisabled) {
  RecordProperty("holds", "container-toolkit.md #55, #56, #57");
  Options options;
  EXPECT_EQ(HookNames(options),
            (Names{"create-symlinks", "enable-cuda-compat", "update-ldcache",
                   "disable-device-node-modification", "update-application-profile"}));
  options.disabled_hooks = {"enable-cuda-compat", "update-ldcache"};
  EXPECT_EQ(HookNames(options), (Names{"create-symlinks", "disable-device-node-modification",
                                       "update-application-profile"}));
  options.disabled_hooks = {"all"};
  EXPECT_EQ(HookNames(options), Names{});
}

TEST(Generate, TheAdministratorsToolAsHookProgram) {
  RecordProperty("holds", "container-toolkit.md #85");
  Options options;
  options.hook_path = "/usr/bin/nvidia-ctk";
  cdi::ContainerEdits edits;
  AddHook("update-ldcache", {"--folder", "/x"}, options, edits);
  EXPECT_EQ(edits.hooks[0].args, (Names{"nvidia-ctk", "hook", "update-ldcache", "--folder", "/x"}));
}

TEST(Generate, WithoutADeviceNodeThereIsNoDevice) {
  auto files = Files();
  files.nodes.clear();
  const auto generated = GenerateGpus(OneGpu(), files, {});
  ASSERT_FALSE(generated);
  EXPECT_EQ(generated.error().reason, "NoDevices");
  EXPECT_NE(generated.error().message.find("/dev/nvidia0"), std::string::npos);
}

TEST(Generate, AGpuThatOnlyDrivesADisplayIsPassedOver) {  // device-plugin.md section 7
  auto inventory = OneGpu();
  inventory.devices.push_back(inventory.devices[0]);
  inventory.devices[0].name = "NVIDIA DGX Display";
  inventory.devices[0].uuid = "GPU-display";
  Options options;
  options.naming = {Naming::kUuid};
  options.merged_device = false;
  const auto generated = GenerateGpus(inventory, Files(), options);
  ASSERT_TRUE(generated.has_value()) << generated.error().ToString();
  ASSERT_EQ(generated->spec.devices.size(), 1U);
  EXPECT_EQ(generated->spec.devices[0].name, "GPU-1");
  EXPECT_TRUE(generated->omitted.empty());
}

TEST(Generate, AdditionalGroupsOnlyWhereNeeded) {
  RecordProperty("holds", "container-toolkit.md #73, #74");
  const auto gids = [](std::uint32_t mode, std::uint32_t gid, bool enabled) {
    Options options;
    options.additional_gids = enabled;
    cdi::ContainerEdits edits;
    AddNode({"/dev/x", 1, 1, mode, gid}, options, edits);
    return edits.additional_gids;
  };
  EXPECT_EQ(gids(0660, 44, true), std::vector<std::uint32_t>{44});
  EXPECT_TRUE(gids(0660, 0, true).empty());
  EXPECT_TRUE(gids(0, 44, true).empty());
  EXPECT_TRUE(gids(0666, 44, true).empty());
  EXPECT_TRUE(gids(0660, 44, false).empty());
}

TEST(Generate, LinksOfLibraries) {
  RecordProperty("holds", "container-toolkit.md #80, #81, #82");
  EXPECT_EQ(
      LibraryLinks({{"/d/libcuda.so.999.88.77", "", "libcuda.so.1", {"libcuda.so", "libcuda.so.1"}},
                    {"/d/libGLX_nvidia.so.999.88.77", "", "", {}},
                    {"/d/libnvidia-opticalflow.so.999.88.77", "", "", {}},
                    {"/d/libother.so.999.88.77", "", "libother.so.999.88.77", {"libother.so"}},
                    {"/d/libnone.so.999.88.77", "", "libnone.so.1", {}},
                    {"/d/foo.so.so.566", "", "", {"foo.so.so"}}}),
      (Names{"libcuda.so.1::/d/libcuda.so", "libcuda.so.999.88.77::/d/libcuda.so.1",
             "libGLX_nvidia.so.999.88.77::/d/libGLX_indirect.so.0",
             "libnvidia-opticalflow.so.1::/d/libnvidia-opticalflow.so",
             "libother.so.999.88.77::/d/libother.so", "foo.so.so.566::/d/foo.so.so"}));
}

TEST(Locate, MigMinors) {
  RecordProperty("holds", "container-toolkit.md #75");
  EXPECT_EQ(
      ParseMigMinors("config 1\nmonitor 2\ngpu0/gi0/ci0/access 4\ngpu0/gi0/access 3\n"
                     "notconfig 99\nconfig notanint\n\ngpu0/gi0/ci0 5\ngpuX/gi0/access 6\n"
                     "monitor  2\n"),
      (std::map<std::string, std::uint32_t>{
          {"config", 1}, {"monitor", 2}, {"gpu0/gi0/access", 3}, {"gpu0/gi0/ci0/access", 4}}));
}

TEST(Locate, AnEmptyRootHasNoDriver) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "pitcrew-no-driver";
  std::filesystem::create_directories(folder);
  const host::Root root(folder);
  EXPECT_EQ(Locate({root, root, "", folder, folder}).error().reason, "DriverVersionUnknown");
  EXPECT_EQ(Locate({root, root, "1.2.3", folder, folder}).error().reason,
            "DriverLibrariesNotFound");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pitcrew::cdi_generate

#include "cdi/generate/generate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "cdi/format.h"
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

// The management class is for containers that change devices, so the driver's parameters stay as
// they are; its nodes come from the device root, its libraries from the driver root.
TEST(Generate, ManagementLeavesTheDriversParametersAlone) {
  RecordProperty("holds", "container-toolkit.md #66");
  Options options;
  options.driver_root = "/run/nvidia/driver";
  options.dev_root = "/";
  auto files = Files();
  files.mps_folder = "/tmp/nvidia-mps";
  const auto spec = GenerateManagement(files, options);
  ASSERT_TRUE(spec) << spec.error().ToString();
  Names hooks;
  for (const auto& hook : spec->edits.hooks) hooks.push_back(hook.args[1]);
  for (const auto& hook : spec->devices.at(0).edits.hooks) hooks.push_back(hook.args[1]);
  EXPECT_EQ(std::ranges::count(hooks, "disable-device-node-modification"), 0);
  EXPECT_EQ(std::ranges::count(hooks, "update-ldcache"), 1);
  const auto& node = spec->devices.at(0).edits.device_nodes.at(0);
  EXPECT_EQ(node.host_path.empty() ? node.path : node.host_path, "/dev/nvidia0");
  ASSERT_EQ(spec->edits.mounts.size(), 1U);
  EXPECT_EQ(spec->edits.mounts[0].host_path, "/run/nvidia/driver/usr/lib64/libcuda.so.999.88.77");
}

TEST(Generate, OnlyFoldersOfLibrariesGoIntoTheLoadersCache) {
  RecordProperty("holds", "container-toolkit.md #83");
  auto files = Files();
  files.libraries = {{"/a/libcuda.so", "", "", {}},
                     {"/b/libcuda.so.1", "", "", {}},
                     {"/c/lib.so", "", "", {}},
                     {"/d/notlibcuda.so", "", "", {}},
                     {"/e/libcuda.soNOT", "", "", {}}};
  cdi::ContainerEdits edits;
  AddDriver(files, {}, false, edits);
  const auto& hook = edits.hooks.back();
  EXPECT_EQ(hook.args,
            (Names{"nvidia-cdi-hook", "update-ldcache", "--folder", "/a", "--folder", "/b"}));
}

TEST(Generate, ModulesOfAnXServerAreNotInTheLoadersCache) {
  RecordProperty("holds", "container-toolkit.md #84");
  auto files = Files();
  files.graphics = {{"/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.999.88.77", ""},
                    {"/usr/lib64/libnvidia-egl-gbm.so.1.1.0", ""}};
  cdi::ContainerEdits edits;
  AddDriver(files, {}, true, edits);
  EXPECT_EQ(edits.mounts.size(), 3u);
  EXPECT_EQ(edits.hooks.back().args,
            (Names{"nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64"}));
}

cdi::Device WithEnvironment(const std::string& name, Names env) {
  cdi::Device device{name, {}, {}};
  device.edits.env = std::move(env);
  return device;
}

TEST(Assemble, OfEqualEditsTheFirstStays) {
  RecordProperty("holds", "container-toolkit.md #88");
  cdi::Spec spec{"", "nvidia.com/gpu", {}, {WithEnvironment("0", {"A=1", "B=2", "A=1"})}, {}};
  auto& edits = spec.devices[0].edits;
  const cdi::Hook hook{"createContainer", "/h", {"h", "x"}, {}, {}};
  const cdi::Hook other{"createContainer", "/h", {"h", "y"}, {}, {}};
  edits.hooks = {hook, other, hook};
  edits.mounts = {{"/m", "/m", {}, ""}, {"/m", "/m", {}, ""}};
  cdi::DeviceNode node;
  node.path = "/dev/x";
  edits.device_nodes = {node, node};
  edits.additional_gids = {44, 7, 44};
  Assemble(spec, false);
  const auto& result = spec.devices.at(0).edits;
  EXPECT_EQ(result.env, (Names{"A=1", "B=2"}));
  EXPECT_EQ(result.hooks, (std::vector<cdi::Hook>{hook, other}));
  EXPECT_EQ(result.mounts.size(), 1U);
  EXPECT_EQ(result.device_nodes.size(), 1U);
  EXPECT_EQ(result.additional_gids, (std::vector<std::uint32_t>{7, 44}));
}

TEST(Assemble, TheMergedDevice) {
  RecordProperty("holds", "container-toolkit.md #91");
  const cdi::Hook hook{"createContainer", "/h", {"h"}, {}, {}};
  cdi::Spec spec{
      "", "nvidia.com/gpu", {}, {WithEnvironment("0", {"A=1"}), WithEnvironment("1", {"B=2"})}, {}};
  for (auto& device : spec.devices) device.edits.hooks = {hook};
  Assemble(spec, true);
  ASSERT_EQ(spec.devices.size(), 3U);
  EXPECT_EQ(spec.devices[2].name, "all");
  EXPECT_EQ(spec.devices[2].edits.env, (Names{"A=1", "B=2"}));
  EXPECT_EQ(spec.devices[2].edits.hooks, std::vector<cdi::Hook>{hook});

  // One that is there already stays as it is.
  cdi::Spec given{"",
                  "nvidia.com/gpu",
                  {},
                  {WithEnvironment("0", {"A=1"}), WithEnvironment("all", {"OWN=1"})},
                  {}};
  Assemble(given, true);
  ASSERT_EQ(given.devices.size(), 2U);
  EXPECT_EQ(given.devices[1].edits.env, Names{"OWN=1"});

  spec.devices[2].name = "not a name";
  EXPECT_FALSE(cdi::Validate(spec));
}

class DriverTree : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& inside) const {
    std::filesystem::create_directories((root_ / inside).parent_path());
    ASSERT_TRUE(base::WriteFileAtomically(root_ / inside, "x", 0755));
  }
  [[nodiscard]] DriverFiles Located() const {
    const host::Root root(root_);
    const auto files = Locate({root, root, "999.88.77", root_ / "sys", root_ / "proc"});
    EXPECT_TRUE(files) << files.error().ToString();
    return files.value_or(DriverFiles{});
  }
  std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) /
                                ("pitcrew-driver-tree-" + std::to_string(::getpid()));
};

// The allocator of this driver is linked for GBM; that of another version is a library like others.
TEST_F(DriverTree, TheAllocatorOfTheDriversVersionIsLinked) {
  RecordProperty("holds", "container-toolkit.md #78");
  Write("usr/lib64/libcuda.so.999.88.77");
  Write("usr/lib64/libnvidia-allocator.so.111.22.33");
  EXPECT_EQ(Located().graphics_links, Names{});
  Write("usr/lib64/libnvidia-allocator.so.999.88.77");
  const auto files = Located();
  EXPECT_EQ(files.graphics_links,
            Names{"../libnvidia-allocator.so.1::/usr/lib64/gbm/nvidia-drm_gbm.so"});
  for (const auto& file : files.graphics) {
    EXPECT_EQ(file.path.find("libnvidia-allocator"), std::string::npos);
  }
}

TEST_F(DriverTree, GraphicsConfigurationsHaveTheirPlaceInContainers) {
  RecordProperty("holds", "container-toolkit.md #79");
  Write("usr/lib64/libcuda.so.999.88.77");
  Write("usr/local/share/glvnd/egl_vendor.d/10_nvidia.json");
  Write("etc/egl/egl_external_platform.d/15_nvidia_gbm.json");
  Write("usr/share/OpenCL/vendors/nvidia.icd");
  Write("usr/share/vulkan/icd.d/nvidia_icd.json");
  Write("vulkan/icd.d/nvidia_layers.json");
  EXPECT_EQ(Located().graphics,
            (std::vector<File>{
                {"/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
                 "/usr/local/share/glvnd/egl_vendor.d/10_nvidia.json"},
                {"/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
                 "/etc/egl/egl_external_platform.d/15_nvidia_gbm.json"},
                {"/etc/OpenCL/vendors/nvidia.icd", "/usr/share/OpenCL/vendors/nvidia.icd"},
                {"/etc/vulkan/icd.d/nvidia_icd.json", "/usr/share/vulkan/icd.d/nvidia_icd.json"},
                {"/etc/vulkan/icd.d/nvidia_layers.json", "/vulkan/icd.d/nvidia_layers.json"}}));
}

// Containers may write to it, and it lies where anybody can put a link.
TEST_F(DriverTree, TheFolderOfMpsIsARealOneOfOurs) {
  Write("usr/lib64/libcuda.so.999.88.77");
  std::filesystem::create_directories(root_ / "etc");
  std::filesystem::create_directories(root_ / "tmp");
  const host::Root root(root_);
  LocateOptions options{root, root, "999.88.77", root_ / "sys", root_ / "proc"};
  const auto found = [&](const std::string& folder) {
    options.mps_folder = folder;
    const auto files = Locate(options);
    return files ? files->mps_folder : files.error().ToString();
  };
  EXPECT_EQ(found("/tmp/nvidia-mps"), "");
  std::filesystem::create_symlink("../etc", root_ / "tmp/nvidia-mps");
  EXPECT_EQ(found("/tmp/nvidia-mps"), "");
  std::filesystem::remove(root_ / "tmp/nvidia-mps");
  std::filesystem::create_directory(root_ / "tmp/nvidia-mps");
  EXPECT_EQ(found("/tmp/nvidia-mps"), "/tmp/nvidia-mps");
  EXPECT_EQ(found("tmp/nvidia-mps"), "");
  EXPECT_EQ(found(""), "");
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown((root_ / "tmp/nvidia-mps").c_str(), 1000, 1000), 0);
  EXPECT_EQ(found("/tmp/nvidia-mps"), "");
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

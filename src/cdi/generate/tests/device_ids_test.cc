// Devices and hooks that are asked for by name (container-toolkit.md 6.4, 6.7).
#include "cdi/generate/device_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cdi/format.h"
#include "cdi/generate/generate.h"

namespace pitcrew::cdi_generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::vector<std::string>;

// GPU 0 is whole, GPU 1 divided.
gpu::Inventory TwoGpus() {
  gpu::Inventory inventory;
  inventory.driver_version = "999.88.77";
  for (unsigned index = 0; index < 2; ++index) {
    gpu::Device device;
    device.index = index;
    device.minor_number = index;
    device.uuid = "GPU-" + std::string(1, static_cast<char>('a' + index));
    inventory.devices.push_back(device);
  }
  auto& divided = inventory.devices[1];
  divided.mig_mode = base::Observed<gpu::MigMode>::Present({true, true});
  gpu::MigDevice mig;
  mig.index = 2;
  mig.uuid = "MIG-m";
  mig.gpu_instance_id = 9;
  mig.compute_instance_id = 0;
  divided.mig_devices = {mig};
  return inventory;
}

DriverFiles FilesOfTwo() {
  DriverFiles files;
  files.version = "999.88.77";
  files.nodes = {{"/dev/dri/card0", 226, 0, 0666, 0},
                 {"/dev/nvidia-caps/nvidia-cap12", 240, 12, 0444, 0},
                 {"/dev/nvidia-caps/nvidia-cap13", 240, 13, 0444, 0},
                 {"/dev/nvidia-caps-imex-channels/channel0", 241, 0, 0666, 0},
                 {"/dev/nvidia0", 195, 0, 0666, 0},
                 {"/dev/nvidia1", 195, 1, 0666, 0}};
  files.mig_minors = {{"gpu1/gi9/access", 12}, {"gpu1/gi9/ci0/access", 13}};
  return files;
}

// "0" for a GPU, "1:2" for a MIG device; or the error's reason.
Names Chosen(const Names& ids) {
  const auto inventory = TwoGpus();
  const auto chosen = ChooseDevices(inventory, ids);
  if (!chosen) return {chosen.error().reason};
  Names names;
  for (const auto& one : *chosen) {
    names.push_back(std::to_string(one.gpu->index));
    if (one.mig != nullptr) names.back() += ":" + std::to_string(one.mig->index);
  }
  return names;
}

Names NamesByIds(const Names& ids) {
  Options options;
  options.ids = ids;
  options.naming = {Naming::kIndex};
  const auto generated = GenerateGpus(TwoGpus(), FilesOfTwo(), options);
  if (!generated) return {generated.error().reason};
  Names names;
  for (const auto& device : generated->spec.devices) names.push_back(device.name);
  return names;
}

TEST(DeviceIds, EveryFormNamesItsDevice) {
  RecordProperty("holds", "container-toolkit.md #72");
  EXPECT_THAT(Chosen({"0"}), ElementsAre("0"));
  EXPECT_THAT(Chosen({"1"}), ElementsAre("1")) << "also in MIG mode";
  EXPECT_THAT(Chosen({"GPU-b", "GPU-a"}), ElementsAre("1", "0"));
  EXPECT_THAT(Chosen({"1:2"}), ElementsAre("1:2"));
  EXPECT_THAT(Chosen({"MIG-m"}), ElementsAre("1:2"));
  EXPECT_THAT(Chosen({"MIG-GPU-b/9/0"}), ElementsAre("1:2"));
  EXPECT_THAT(Chosen({"0", "GPU-a"}), ElementsAre("0")) << "each once";
}

TEST(DeviceIds, WhatThereIsNotIsAnError) {
  RecordProperty("holds", "container-toolkit.md #54");
  for (const auto* id : {"99", "GPU-z", "MIG-z", "MIG-GPU-b/9/1", "1:0", "0:0", "-1"}) {
    EXPECT_THAT(Chosen({id}), ElementsAre("NoSuchDevice")) << id;
  }
  for (const auto* id : {"", "x", "0:", ":1", "gpu0"}) {
    EXPECT_THAT(Chosen({id}), ElementsAre("BadDeviceId")) << id;
  }
  EXPECT_THAT(Chosen({"0", "99"}), ElementsAre("NoSuchDevice"));
}

TEST(DeviceIds, OnlyTheDevicesThatAreAskedForAreInTheSpecification) {
  EXPECT_THAT(NamesByIds({"all"}), ElementsAre("0", "1:2", "all"));
  EXPECT_THAT(NamesByIds({"0"}), ElementsAre("0", "all"));
  EXPECT_THAT(NamesByIds({"1"}), ElementsAre("1", "all"));
  EXPECT_THAT(NamesByIds({"99"}), ElementsAre("NoSuchDevice"));
}

// GPUs in MIG mode by their own names, as they can be asked for; "all" is the MIG devices.
TEST(DeviceIds, GpusInMigModeAreApartWhereTheyAreWanted) {
  Options options;
  options.divided_gpus = true;
  const auto generated = GenerateGpus(TwoGpus(), FilesOfTwo(), options);
  ASSERT_TRUE(generated) << generated.error().ToString();
  Names names;
  for (const auto& device : generated->spec.devices) names.push_back(device.name);
  EXPECT_THAT(names, ElementsAre("0", "1", "1:2", "GPU-a", "GPU-b", "MIG-m", "all"));
  options.divided_gpus = false;
  const auto without = GenerateGpus(TwoGpus(), FilesOfTwo(), options);
  EXPECT_EQ(generated->spec.devices.back().edits, without->spec.devices.back().edits);
  EXPECT_THAT(generated->spec.devices[1].edits.device_nodes, ::testing::SizeIs(1));
}

// As after the node's start: they can be divided by a container that asks for all of them.
TEST(DeviceIds, WhereNoGpuIsDividedYetAllIsTheDriver) {
  auto inventory = TwoGpus();
  inventory.devices.erase(inventory.devices.begin());
  inventory.devices[0].mig_devices.clear();
  Options options;
  EXPECT_EQ(GenerateGpus(inventory, FilesOfTwo(), options).error().reason, "NoDevices");
  options.divided_gpus = true;
  const auto generated = GenerateGpus(inventory, FilesOfTwo(), options);
  ASSERT_TRUE(generated) << generated.error().ToString();
  ASSERT_EQ(generated->spec.devices.size(), 3U);
  const auto& all = generated->spec.devices.back();
  EXPECT_EQ(all.name, "all");
  EXPECT_THAT(all.edits.device_nodes, IsEmpty());
  EXPECT_THAT(all.edits.env, ElementsAre("NVIDIA_VISIBLE_DEVICES=void"));
  EXPECT_TRUE(cdi::Validate(generated->spec));
  // A GPU of which nothing is known is no reason for an empty specification.
  inventory.devices[0].fault = base::Unavailable("GpuIsLost", "lost");
  EXPECT_EQ(GenerateGpus(inventory, FilesOfTwo(), options).error().reason, "NoDevices");
}

TEST(DeviceIds, NoneIsADeviceThatChangesNothing) {
  RecordProperty("holds", "container-toolkit.md #59, #72");
  Options options;
  options.ids = {"none"};
  const auto generated = GenerateGpus(TwoGpus(), FilesOfTwo(), options);
  ASSERT_TRUE(generated) << generated.error().ToString();
  ASSERT_EQ(generated->spec.devices.size(), 1U);
  EXPECT_EQ(generated->spec.devices[0].name, "none");
  EXPECT_THAT(generated->spec.devices[0].edits.env, ElementsAre("NVCT_EMPTY_DEVICE="));
  EXPECT_THAT(generated->spec.devices[0].edits.device_nodes, IsEmpty());
}

TEST(DeviceIds, TheFirstSpecialWordCounts) {
  EXPECT_TRUE(MeansNoDevice({"0", "none", "all"}));
  EXPECT_FALSE(MeansAllDevices({"0", "none", "all"}));
  EXPECT_TRUE(MeansAllDevices({"all", "none"}));
  EXPECT_FALSE(MeansNoDevice({"0"}));
  EXPECT_FALSE(MeansAllDevices({"0"}));
}

// What a GPU that is asked for lacks is the error; under "all" the others go on without it.
TEST(DeviceIds, AFaultyGpuThatIsAskedForIsAnError) {
  auto inventory = TwoGpus();
  inventory.devices[0].fault = base::Unavailable("GpuLost", "it has fallen off the bus");
  Options options;
  options.ids = {"0"};
  const auto one = GenerateGpus(inventory, FilesOfTwo(), options);
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("fallen off"));
  options.ids = {"all"};
  const auto all = GenerateGpus(inventory, FilesOfTwo(), options);
  ASSERT_TRUE(all) << all.error().ToString();
  EXPECT_EQ(all->omitted.size(), 1U);
}

Names HooksOf(const cdi::ContainerEdits& edits) {
  Names names;
  for (const auto& hook : edits.hooks) names.push_back(hook.args.at(1));
  return names;
}

TEST(EnabledHooks, OneThatIsEnabledBeatsAllThatAreDisabled) {
  RecordProperty("holds", "container-toolkit.md #86");
  auto files = FilesOfTwo();
  files.libraries = {{"/usr/lib64/libcuda.so.999.88.77", "", "libcuda.so.1", {}}};
  Options options;
  options.disabled_hooks = {"all"};
  options.enabled_hooks = {"update-ldcache"};
  const auto generated = GenerateGpus(TwoGpus(), files, options);
  ASSERT_TRUE(generated) << generated.error().ToString();
  EXPECT_THAT(HooksOf(generated->spec.edits), ElementsAre("update-ldcache"));
}

TEST(EnabledHooks, ChmodIsForTheFoldersOfTheNodes) {
  RecordProperty("holds", "container-toolkit.md #58");
  Options options;
  const auto without = GenerateManagement(FilesOfTwo(), options);
  ASSERT_TRUE(without) << without.error().ToString();
  EXPECT_THAT(without->devices[0].edits.hooks, IsEmpty());
  options.enabled_hooks = {"chmod"};
  const auto management = GenerateManagement(FilesOfTwo(), options);
  ASSERT_TRUE(management) << management.error().ToString();
  ASSERT_EQ(management->devices[0].edits.hooks.size(), 1U);
  EXPECT_THAT(
      management->devices[0].edits.hooks[0].args,
      ElementsAre("nvidia-cdi-hook", "chmod", "--mode", "755", "--path", "/dev/nvidia-caps"));
}

TEST(EnabledHooks, ThePathOfLdconfigStandsBeforeTheFolders) {
  RecordProperty("holds", "container-toolkit.md #84");
  auto files = FilesOfTwo();
  files.libraries = {{"/usr/lib64/libcuda.so.999.88.77", "", "libcuda.so.1", {}}};
  Options options;
  options.ldconfig_path = "/sbin/ldconfig";
  options.disabled_hooks = {"all"};
  options.enabled_hooks = {"update-ldcache"};
  const auto generated = GenerateGpus(TwoGpus(), files, options);
  ASSERT_TRUE(generated) << generated.error().ToString();
  EXPECT_THAT(generated->spec.edits.hooks.at(0).args,
              ElementsAre("nvidia-cdi-hook", "update-ldcache", "--ldconfig-path", "/sbin/ldconfig",
                          "--folder", "/usr/lib64"));
}

}  // namespace
}  // namespace pitcrew::cdi_generate

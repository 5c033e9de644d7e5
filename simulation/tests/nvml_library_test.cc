// The built libnvidia-ml.so.1, loaded as its users load it. Names follow feature-discovery.md
// section 18, "What a simulated libnvidia-ml.so.1 must satisfy".
#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "nvml/abi.h"
#include "simulation/state/discovery.h"
#include "simulation/state/incidents.h"
#include "simulation/tests/support_nvml_library.h"

namespace pitcrew::simulation {
namespace {

using namespace nvml::abi;

// Section 12: the symbols that the device plugin, feature discovery and the CDI generator call, and
// those of other Go components.
constexpr const char* kSymbols[] = {
    "nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetIndex",
    "nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetGpuInstanceProfileInfo", "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstanceById", "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlComputeInstanceGetInfo_v2", "nvmlEventSetCreate", "nvmlEventSetFree",
    "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2",
    "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetAddressingMode", "nvmlSystemGetNVMLVersion",
    "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceSetMigMode", "nvmlDeviceGetGpuInstances",
    "nvmlDeviceCreateGpuInstance", "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceDestroy", "nvmlGpuInstanceGetComputeInstances",
    "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy", "nvmlInitWithFlags",
    "nvmlDeviceGetPersistenceMode", "nvmlDeviceSetPersistenceMode", "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization",
    // Section 11: versioned symbols that are probed at load, and their first names.
    "nvmlInit", "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetNvLinkRemotePciInfo", "nvmlDeviceGetGridLicensableFeatures",
    "nvmlDeviceGetGridLicensableFeatures_v2", "nvmlDeviceGetGridLicensableFeatures_v3",
    "nvmlDeviceGetGridLicensableFeatures_v4", "nvmlEventSetWait", "nvmlDeviceGetAttributes",
    "nvmlComputeInstanceGetInfo", "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetGpuInstancePossiblePlacements",
    "nvmlVgpuInstanceGetLicenseInfo", "nvmlVgpuInstanceGetLicenseInfo_v2",
    "nvmlDeviceGetDriverModel", "nvmlDeviceGetDriverModel_v2"};

TEST_F(NvmlLibrary, Item2EverySymbolIsThere) {
  for (const char* name : kSymbols) EXPECT_NE(::dlsym(library_, name), nullptr) << name;
}

TEST_F(NvmlLibrary, Item1FoundBesideItselfUnderADriverRoot) {
  node_ = std::make_unique<TestNode>("gpus: [{profile: T4}]");
  const auto folder = node_->folder() / "root/usr/lib/x86_64-linux-gnu";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kLibrary, folder / "libnvidia-ml.so.570.1.1");
  std::filesystem::create_symlink("libnvidia-ml.so.570.1.1", folder / "libnvidia-ml.so.1");
  std::filesystem::create_symlink(node_->state_path(), folder / "libnvidia-simulation.so.570.1.1");
  void* other = ::dlopen((folder / "libnvidia-ml.so.1").c_str(), RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(other, nullptr) << ::dlerror();
  auto* init = reinterpret_cast<Return (*)()>(::dlsym(other, "nvmlInit_v2"));
  auto* version =
      reinterpret_cast<Return (*)(char*, unsigned)>(::dlsym(other, "nvmlSystemGetDriverVersion"));
  ASSERT_EQ(init(), kSuccess);
  char text[kVersionBufferSize] = {};
  EXPECT_EQ(version(text, sizeof(text)), kSuccess);
  EXPECT_STREQ(text, "580.95.05");
  reinterpret_cast<Return (*)()>(::dlsym(other, "nvmlShutdown"))();
  ::dlclose(other);
}

// Loaded into any container: NVML is all that it may export; what it may need is in
// needed_libraries_test.cc.
TEST_F(NvmlLibrary, ExportsOnlyNvml) {
  const auto bytes = base::ReadFile(kLibrary);
  ASSERT_TRUE(bytes);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes->data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes->data() + header->e_shoff);
  std::string soname;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto& section = sections[i];
    if (section.sh_type != SHT_DYNAMIC && section.sh_type != SHT_DYNSYM) continue;
    const char* strings = bytes->data() + sections[section.sh_link].sh_offset;
    if (section.sh_type == SHT_DYNAMIC) {
      const auto* entry = reinterpret_cast<const Elf64_Dyn*>(bytes->data() + section.sh_offset);
      for (; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SONAME) soname = strings + entry->d_un.d_val;
      }
      continue;
    }
    const auto* symbol = reinterpret_cast<const Elf64_Sym*>(bytes->data() + section.sh_offset);
    const auto count = section.sh_size / sizeof(*symbol);
    for (std::size_t j = 1; j < count; ++j) {
      if (symbol[j].st_shndx == SHN_UNDEF) continue;
      EXPECT_TRUE(std::string(strings + symbol[j].st_name).starts_with("nvml"))
          << strings + symbol[j].st_name;
    }
  }
  EXPECT_EQ(soname, "libnvidia-ml.so.1");
}

TEST_F(NvmlLibrary, Item3CountsInitialisations) {
  Start("gpus: [{profile: T4}]");
  unsigned count = 0;
  EXPECT_EQ(Call("nvmlInit_v2"), kSuccess);
  EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), kSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), kUninitialized);
  EXPECT_EQ(Call("nvmlShutdown"), kUninitialized);
}

// As if it had a device of it open: from the first initialisation to the last shutdown nobody
// unloads it.
TEST_F(NvmlLibrary, IsAUserOfTheDriver) {
  Start("gpus: [{profile: T4}]");
  EXPECT_EQ(Call("nvmlInit_v2"), kSuccess);
  EXPECT_FALSE(node_->file().TakeDriver(false));
  EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  EXPECT_FALSE(node_->file().TakeDriver(false));
  EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  EXPECT_TRUE(node_->file().TakeDriver(false));
}

TEST_F(NvmlLibrary, Item3SeveralThreadsAtOnce) {
  Start("gpus: [{profile: H100-80, count: 2, mig: {enabled: true, devices: {1g.10gb: 7}}}]");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        EXPECT_EQ(Call("nvmlInit_v2"), kSuccess);
        Device mig = nullptr;
        EXPECT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", Gpu(1), 6u, &mig), kSuccess);
        EXPECT_TRUE(Uuid(mig).starts_with("MIG-"));
        EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(NvmlLibrary, Item4WaitTimesOut) {
  Start("gpus: [{profile: T4}]");
  EventSet set = nullptr;
  ASSERT_EQ(Call("nvmlEventSetCreate", &set), kSuccess);
  ASSERT_EQ(Call("nvmlDeviceRegisterEvents", Gpu(0), kEventXid, set), kSuccess);
  EventData data{};
  EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &data, 1u), kTimeout);
  EXPECT_EQ(Call("nvmlEventSetFree", set), kSuccess);
  EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &data, 1u), kInvalidArgument);
}

TEST_F(NvmlLibrary, Item4XidEventsComeWhileWaiting) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  EventSet set = nullptr;
  ASSERT_EQ(Call("nvmlEventSetCreate", &set), kSuccess);
  ASSERT_EQ(Call("nvmlDeviceRegisterEvents", Gpu(1), kEventXid, set), kSuccess);
  EventData data{};
  Return result = kUnknown;
  std::thread waiter([&] { result = Call("nvmlEventSetWait_v2", set, &data, 60000u); });
  Change_([](NodeState& state) { AddEvent(state, 0, kEventXid, 31); });  // not registered
  Change_([](NodeState& state) { AddEvent(state, 1, kEventSingleBitEcc, 0); });
  Change_([](NodeState& state) { AddEvent(state, 1, kEventXid, 62); });
  waiter.join();
  EXPECT_EQ(result, kSuccess);
  EXPECT_EQ(Uuid(data.device), Uuid(Gpu(1)));
  EXPECT_EQ(data.event_type, 8u);
  EXPECT_EQ(data.event_data, 62u);
  EXPECT_EQ(data.gpu_instance_id, 0xffffffffu);
  EXPECT_EQ(data.compute_instance_id, 0xffffffffu);
}

TEST_F(NvmlLibrary, Item4EventsOfBeforeTheSetDoNotCome) {
  Start("gpus: [{profile: T4}]");
  Change_([](NodeState& state) { AddEvent(state, 0, kEventXid, 1); });
  EventSet set = nullptr;
  ASSERT_EQ(Call("nvmlEventSetCreate", &set), kSuccess);
  ASSERT_EQ(Call("nvmlDeviceRegisterEvents", Gpu(0), kEventXid, set), kSuccess);
  for (std::uint64_t xid : {48, 63}) {
    Change_([&](NodeState& state) { AddEvent(state, 0, kEventXid, xid); });
  }
  EventData data{};
  EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &data, 1000u), kSuccess);
  EXPECT_EQ(data.event_data, 48u);
  EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &data, 1000u), kSuccess);
  EXPECT_EQ(data.event_data, 63u);
  EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &data, 1u), kTimeout);
}

TEST_F(NvmlLibrary, Item5TopologyIsSymmetricAndLinksEnd) {
  Start("gpus: [{profile: H100-80, count: 8}]");
  const std::set<unsigned> levels = {0, 10, 20, 30, 40, 50};
  for (unsigned a = 0; a < 8; ++a) {
    for (unsigned b = 0; b < 8; ++b) {
      unsigned there = 1;
      unsigned back = 2;
      EXPECT_EQ(Call("nvmlDeviceGetTopologyCommonAncestor", Gpu(a), Gpu(b), &there), kSuccess);
      EXPECT_EQ(Call("nvmlDeviceGetTopologyCommonAncestor", Gpu(b), Gpu(a), &back), kSuccess);
      EXPECT_EQ(there, back);
      EXPECT_TRUE(levels.contains(there));
    }
  }
  for (unsigned link = 0; link < kNvLinkCount; ++link) {
    unsigned state = 9;
    const auto result = Call("nvmlDeviceGetNvLinkState", Gpu(0), link, &state);
    if (link < 18) {
      EXPECT_EQ(result, kSuccess);
    } else {
      EXPECT_TRUE(result == kNotSupported || result == kInvalidArgument) << result;
    }
  }
}

TEST_F(NvmlLibrary, Item6MigInfoIsConsistent) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {3g.20gb: 1, 1g.5gb: 3}}}]");
  const Device gpu = Gpu(0);
  std::vector<DeviceAttributes> small;
  for (unsigned index = 0; index < 4; ++index) {
    SCOPED_TRACE(index);
    Device mig = nullptr;
    ASSERT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index, &mig), kSuccess);
    unsigned gi_id = 0;
    unsigned ci_id = 9;
    ASSERT_EQ(Call("nvmlDeviceGetGpuInstanceId", mig, &gi_id), kSuccess);
    ASSERT_EQ(Call("nvmlDeviceGetComputeInstanceId", mig, &ci_id), kSuccess);
    GpuInstance gi = nullptr;
    ComputeInstance ci = nullptr;
    ASSERT_EQ(Call("nvmlDeviceGetGpuInstanceById", gpu, gi_id, &gi), kSuccess);
    ASSERT_EQ(Call("nvmlGpuInstanceGetComputeInstanceById", gi, ci_id, &ci), kSuccess);
    GpuInstanceInfo gi_info{};
    ComputeInstanceInfo ci_info{};
    ASSERT_EQ(Call("nvmlGpuInstanceGetInfo", gi, &gi_info), kSuccess);
    ASSERT_EQ(Call("nvmlComputeInstanceGetInfo_v2", ci, &ci_info), kSuccess);
    EXPECT_EQ(gi_info.device, gpu);
    EXPECT_EQ(ci_info.gpu_instance, gi);
    EXPECT_EQ(gi_info.id, gi_id);
    GpuInstanceProfileInfo profile{};
    const unsigned profile_index = index == 0 ? 2 : 0;
    ASSERT_EQ(Call("nvmlDeviceGetGpuInstanceProfileInfo", gpu, profile_index, &profile), kSuccess);
    EXPECT_EQ(profile.id, gi_info.profile_id);
    ComputeInstanceProfileInfo compute{};
    ASSERT_EQ(Call("nvmlGpuInstanceGetComputeInstanceProfileInfo", gi, profile_index, 0u, &compute),
              kSuccess);
    EXPECT_EQ(compute.id, ci_info.profile_id);
    DeviceAttributes attributes{};
    ASSERT_EQ(Call("nvmlDeviceGetAttributes_v2", mig, &attributes), kSuccess);
    if (index > 0) small.push_back(attributes);
    Device found = nullptr;
    ASSERT_EQ(Call("nvmlDeviceGetHandleByUUID", Uuid(mig).c_str(), &found), kSuccess);
    EXPECT_EQ(found, mig);
    Device parent = nullptr;
    ASSERT_EQ(Call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig, &parent), kSuccess);
    EXPECT_EQ(parent, gpu);
  }
  for (const auto& attributes : small) {
    EXPECT_EQ(std::memcmp(&attributes, small.data(), sizeof(attributes)), 0);
  }
  Device none = nullptr;
  EXPECT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 4u, &none), kNotFound);
  EXPECT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 7u, &none), kInvalidArgument);
}

TEST_F(NvmlLibrary, MockServerParity) {
  RecordProperty("holds", "feature-discovery.md #27");
  Start("gpus: [{profile: A100-40, count: 8}]");
  Device device = nullptr;
  EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", 8u, &device), kInvalidArgument);
  EXPECT_EQ(Call("nvmlDeviceGetHandleByUUID", "invalid-uuid", &device), kInvalidArgument);
  EXPECT_EQ(Call("nvmlDeviceGetHandleByPciBusId_v2", "invalid-pci", &device), kInvalidArgument);
  EXPECT_EQ(Call("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000000", &device),
            kNotFound);
  GpuInstanceProfileInfo info{};
  EXPECT_EQ(Call("nvmlDeviceGetGpuInstanceProfileInfo", Gpu(0), ~0u, &info), kInvalidArgument);
  EXPECT_EQ(Call("nvmlDeviceGetGpuInstanceProfileInfo", Gpu(0), 18u, &info), kInvalidArgument);
  EXPECT_EQ(Call("nvmlDeviceGetGpuInstanceProfileInfo", Gpu(0), 5u, &info), kNotSupported);
  Return activation = kUnknown;
  EXPECT_EQ(Call("nvmlDeviceSetMigMode", Gpu(0), 1u, &activation), kSuccess);
  unsigned current = 0;
  unsigned pending = 0;
  EXPECT_EQ(Call("nvmlDeviceGetMigMode", Gpu(0), &current, &pending), kSuccess);
  EXPECT_EQ(current, 1u);
  EXPECT_EQ(pending, 1u);
}

TEST_F(NvmlLibrary, HandlesOfDestroyedInstancesAreNotFound) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true}}]");
  GpuInstance gi = nullptr;
  ComputeInstance ci = nullptr;
  ASSERT_EQ(Call("nvmlDeviceCreateGpuInstance", Gpu(0), 14u, &gi), kSuccess);
  ASSERT_EQ(Call("nvmlGpuInstanceCreateComputeInstance", gi, 1u, &ci), kSuccess);
  Device mig = nullptr;
  ASSERT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", Gpu(0), 0u, &mig), kSuccess);
  EXPECT_EQ(Call("nvmlGpuInstanceDestroy", gi), kInUse);
  ASSERT_EQ(Call("nvmlComputeInstanceDestroy", ci), kSuccess);
  char uuid[kUuidBufferSize];
  EXPECT_EQ(Call("nvmlDeviceGetUUID", mig, uuid, kUuidBufferSize), kNotFound);
  EXPECT_EQ(Call("nvmlComputeInstanceDestroy", ci), kNotFound);
  EXPECT_EQ(Call("nvmlGpuInstanceDestroy", gi), kSuccess);
  EXPECT_EQ(Call("nvmlGpuInstanceDestroy", gi), kNotFound);
  int rubbish = 0;
  EXPECT_EQ(Call("nvmlGpuInstanceDestroy", static_cast<void*>(&rubbish)), kInvalidArgument);
}

TEST_F(NvmlLibrary, NoDriverIsDriverNotLoaded) {
  ::setenv(kStateVariable, "/nonexistent", 1);
  EXPECT_EQ(Call("nvmlInit_v2"), kDriverNotLoaded);
  node_ = std::make_unique<TestNode>("gpus: [{profile: T4}]");
  node_->Use();
  Change_([](NodeState& state) { state.driver_loaded = 0; });
  EXPECT_EQ(Call("nvmlInit_v2"), kDriverNotLoaded);
}

TEST_F(NvmlLibrary, ALostGpuSaysSoAndComesBack) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const Device gpu = Gpu(0);
  Change_([](NodeState& state) { LoseGpu(state, 0); });
  char name[kNameBufferSize];
  Device device = nullptr;
  unsigned count = 0;
  EXPECT_EQ(Call("nvmlDeviceGetName", gpu, name, kNameBufferSize), kGpuIsLost);
  EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", 0u, &device), kGpuIsLost);
  EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), kSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(Call("nvmlDeviceGetName", Gpu(1), name, kNameBufferSize), kSuccess);
  Change_([](NodeState& state) { RestoreGpu(state.gpus[0]); });
  EXPECT_EQ(Call("nvmlDeviceGetName", gpu, name, kNameBufferSize), kSuccess);
}

TEST_F(NvmlLibrary, UnknownErrorOnDemand) {
  Start("gpus: [{profile: T4}]");
  const Device gpu = Gpu(0);
  Change_([](NodeState& state) { state.gpus[0].unknown_error = 1; });
  unsigned value = 0;
  EXPECT_EQ(Call("nvmlDeviceGetMinorNumber", gpu, &value), kUnknown);
}

TEST_F(NvmlLibrary, ASlowCallEndsWhenTheSlownessDoes) {
  Start("gpus: [{profile: T4}]");
  const Device gpu = Gpu(0);
  Change_([](NodeState& state) { state.gpus[0].slow_milliseconds = 600000; });
  Return result = kUnknown;
  unsigned value = 9;
  std::thread caller([&] { result = Call("nvmlDeviceGetMinorNumber", gpu, &value); });
  Change_([](NodeState& state) { state.gpus[0].slow_milliseconds = 0; });
  caller.join();
  EXPECT_EQ(result, kSuccess);
  EXPECT_EQ(value, 0u);
}

// A container sees the GPUs whose device nodes it has.
TEST_F(NvmlLibrary, OnlyGpusWithADeviceNodeAreVisible) {
  node_ = std::make_unique<TestNode>("gpus: [{profile: H100-80, count: 8}]");
  node_->Use({5});
  ASSERT_EQ(Call("nvmlInit_v2"), kSuccess);
  unsigned count = 0;
  EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), kSuccess);
  ASSERT_EQ(count, 1u);
  unsigned minor_number = 0;
  EXPECT_EQ(Call("nvmlDeviceGetMinorNumber", Gpu(0), &minor_number), kSuccess);
  EXPECT_EQ(minor_number, 5u);
  Device device = nullptr;
  const std::string hidden = node_->file().Snapshot()->gpus[0].uuid;
  EXPECT_EQ(Call("nvmlDeviceGetHandleByUUID", hidden.c_str(), &device), kNotFound);
}

TEST_F(NvmlLibrary, OnlyMigDevicesWithCapabilityNodesAreVisible) {
  node_ = std::make_unique<TestNode>(
      "gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 7}}}]");
  node_->Use();
  // As in a container that was given one of them.
  std::filesystem::remove_all(node_->folder() / "dev/nvidia-caps");
  MakeNode("nvidia-caps/nvidia-cap" + std::to_string(GpuInstanceMinor(0, 9)), 1);
  MakeNode("nvidia-caps/nvidia-cap" + std::to_string(ComputeInstanceMinor(0, 9, 0)), 2);
  ASSERT_EQ(Call("nvmlInit_v2"), kSuccess);
  Device mig = nullptr;
  ASSERT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", Gpu(0), 0u, &mig), kSuccess);
  unsigned id = 0;
  EXPECT_EQ(Call("nvmlDeviceGetGpuInstanceId", mig, &id), kSuccess);
  EXPECT_EQ(id, 9u);
  EXPECT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", Gpu(0), 1u, &mig), kNotFound);
}

TEST_F(NvmlLibrary, TextsNeedRoom) {
  Start("gpus: [{profile: T4}]");
  char small[4];
  EXPECT_EQ(Call("nvmlDeviceGetName", Gpu(0), small, 4u), kInsufficientSize);
  EXPECT_EQ(Call("nvmlDeviceGetName", Gpu(0), static_cast<char*>(nullptr), 96u), kInvalidArgument);
}

TEST_F(NvmlLibrary, PciInfoHasAnEightDigitDomain) {
  Start("gpus: [{profile: T4, pci: 0000:07:00.0}]");
  PciInfo pci{};
  ASSERT_EQ(Call("nvmlDeviceGetPciInfo_v3", Gpu(0), &pci), kSuccess);
  EXPECT_STREQ(pci.bus_id, "00000000:07:00.0");
  EXPECT_STREQ(pci.bus_id_legacy, "0000:07:00.0");
  EXPECT_EQ(pci.pci_device_id, 0x1eb810deu);
  Device device = nullptr;
  EXPECT_EQ(Call("nvmlDeviceGetHandleByPciBusId_v2", "0000:07:00.0", &device), kSuccess);
}

TEST_F(NvmlLibrary, FabricIsReportedInEveryVersion) {
  Start(
      "gpus: [{profile: H100-80, fabric: {cluster: 00000000-0000-0000-0000-0000000000aa, clique: "
      "3}}, {profile: T4}]");
  GpuFabricInfo info{};
  ASSERT_EQ(Call("nvmlDeviceGetGpuFabricInfo", Gpu(0), &info), kSuccess);
  EXPECT_EQ(info.state, 3);
  EXPECT_EQ(info.clique_id, 3u);
  EXPECT_EQ(info.cluster_uuid[15], 0xaa);
  GpuFabricInfoV2 second{};
  second.version = kGpuFabricInfoV2;
  ASSERT_EQ(Call("nvmlDeviceGetGpuFabricInfoV", Gpu(0), &second), kSuccess);
  EXPECT_EQ(second.clique_id, 3u);
  second.version = 0x09000024;
  EXPECT_EQ(Call("nvmlDeviceGetGpuFabricInfoV", Gpu(0), &second), kArgumentVersionMismatch);
  EXPECT_EQ(Call("nvmlDeviceGetGpuFabricInfo", Gpu(1), &info), kNotSupported);
}

TEST_F(NvmlLibrary, ProcessesAreListed) {
  Start("gpus: [{profile: T4}]");
  Change_([](NodeState& state) { AddProcess(state.gpus[0], 4711, "/bin/job", 3 << 20, false); });
  unsigned count = 0;
  EXPECT_EQ(Call("nvmlDeviceGetComputeRunningProcesses_v3", Gpu(0), &count,
                 static_cast<ProcessInfo*>(nullptr)),
            kInsufficientSize);
  ASSERT_EQ(count, 1u);
  ProcessInfo info{};
  EXPECT_EQ(Call("nvmlDeviceGetComputeRunningProcesses_v3", Gpu(0), &count, &info), kSuccess);
  EXPECT_EQ(info.pid, 4711u);
  EXPECT_EQ(info.gpu_instance_id, 0xffffffffu);
  Memory memory{};
  EXPECT_EQ(Call("nvmlDeviceGetMemoryInfo", Gpu(0), &memory), kSuccess);
  EXPECT_EQ(memory.total, memory.used + memory.free);
}

}  // namespace
}  // namespace pitcrew::simulation

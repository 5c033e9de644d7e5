// The built libcuda.so.1, loaded as programs load it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "simulation/state/discovery.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

using Pointer = unsigned long long;

constexpr const char* kKernel =
    ".version 7.0\n.target sm_52\n.visible .entry vectorAdd() { ret; }\n"
    ".visible .entry other() { ret; }\n";

class CudaLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = ::dlopen((test_support::BuildFolder().string() + "/lib/libcuda.so.1").c_str(),
                        RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
  }
  // Each test sees a library that was never initialised.
  void TearDown() override { ::dlclose(library_); }
  void Start(const std::string& description) {
    node_ = std::make_unique<TestNode>(description);
    node_->Use();
    ASSERT_EQ(Call("cuInit", 0u), 0);
  }
  template <class... Arguments>
  int Call(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    if (function == nullptr) {
      ADD_FAILURE() << "no function " << name;
      return -1;
    }
    return function(arguments...);
  }

  void* library_ = nullptr;
  std::unique_ptr<TestNode> node_;
};

TEST_F(CudaLibrary, NoDriverIsNoDevice) {
  ::setenv(kStateVariable, "/nonexistent", 1);
  EXPECT_EQ(Call("cuInit", 0u), 100);
  int count = 0;
  EXPECT_EQ(Call("cuDeviceGetCount", &count), 3);
  ::unsetenv(kStateVariable);
}

// As if it had a device of it open: until its process ends nobody unloads it.
TEST_F(CudaLibrary, IsAUserOfTheDriver) {
  node_ = std::make_unique<TestNode>("gpus: [{profile: L4}]");
  node_->Use();
  EXPECT_TRUE(node_->file().TakeDriver(false));
  node_->file().LeaveDriver();
  ASSERT_EQ(Call("cuInit", 0u), 0);
  EXPECT_FALSE(node_->file().TakeDriver(false));
}

TEST_F(CudaLibrary, DescribesItsDevices) {
  Start("gpus: [{profile: H100-80}, {profile: L4}]");
  int count = 0;
  EXPECT_EQ(Call("cuDeviceGetCount", &count), 0);
  EXPECT_EQ(count, 2);
  int version = 0;
  EXPECT_EQ(Call("cuDriverGetVersion", &version), 0);
  EXPECT_EQ(version, 13000);
  char name[96] = {};
  EXPECT_EQ(Call("cuDeviceGetName", name, 96, 1), 0);
  EXPECT_STREQ(name, "NVIDIA L4");
  std::size_t memory = 0;
  EXPECT_EQ(Call("cuDeviceTotalMem_v2", &memory, 0), 0);
  EXPECT_EQ(memory, 81559ull << 20);
  int major = 0;
  EXPECT_EQ(Call("cuDeviceGetAttribute", &major, 75, 0), 0);
  EXPECT_EQ(major, 9);
  int device = -1;
  EXPECT_EQ(Call("cuDeviceGet", &device, 2), 101);
}

TEST_F(CudaLibrary, AddsVectors) {
  Start("gpus: [{profile: T4}]");
  void* context = nullptr;
  ASSERT_EQ(Call("cuCtxCreate_v2", &context, 0u, 0), 0);
  void* module = nullptr;
  void* function = nullptr;
  ASSERT_EQ(Call("cuModuleLoadData", &module, static_cast<const void*>(kKernel)), 0);
  ASSERT_EQ(Call("cuModuleGetFunction", &function, module, "vectorAdd"), 0);
  EXPECT_EQ(Call("cuModuleGetFunction", &function, module, "missing"), 500);
  int count = 1000;
  const std::size_t bytes = 1000 * sizeof(float);
  std::vector<float> a(1000, 1.5F);
  std::vector<float> b(1000, 2.0F);
  std::vector<float> c(1000, 0.0F);
  Pointer da = 0;
  Pointer db = 0;
  Pointer dc = 0;
  for (Pointer* pointer : {&da, &db, &dc}) ASSERT_EQ(Call("cuMemAlloc_v2", pointer, bytes), 0);
  ASSERT_EQ(Call("cuMemcpyHtoD_v2", da, static_cast<const void*>(a.data()), bytes), 0);
  ASSERT_EQ(Call("cuMemcpyHtoD_v2", db, static_cast<const void*>(b.data()), bytes), 0);
  void* parameters[] = {&da, &db, &dc, &count};
  ASSERT_EQ(
      Call("cuLaunchKernel", function, 4u, 1u, 1u, 256u, 1u, 1u, 0u, static_cast<void*>(nullptr),
           static_cast<void**>(parameters), static_cast<void**>(nullptr)),
      0);
  ASSERT_EQ(Call("cuCtxSynchronize"), 0);
  ASSERT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(c.data()), dc, bytes), 0);
  EXPECT_EQ(c, std::vector<float>(1000, 3.5F));
  // While a context lives, the process is on the GPU.
  EXPECT_NE(node_->file().Snapshot()->gpus[0].processes[0].pid, 0u);
  EXPECT_EQ(Call("cuCtxDestroy_v2", context), 0);
  EXPECT_EQ(node_->file().Snapshot()->gpus[0].processes[0].pid, 0u);
}

TEST_F(CudaLibrary, RefusesWhatItCannotDo) {
  Start("gpus: [{profile: T4}]");
  void* context = nullptr;
  void* module = nullptr;
  void* function = nullptr;
  Pointer pointer = 0;
  EXPECT_EQ(Call("cuMemAlloc_v2", &pointer, std::size_t{16}), 201) << "no context yet";
  ASSERT_EQ(Call("cuCtxCreate_v2", &context, 0u, 0), 0);
  EXPECT_EQ(Call("cuModuleLoadData", &module,
                 static_cast<const void*>("\x7f"
                                          "ELF")),
            200);
  ASSERT_EQ(Call("cuModuleLoadData", &module, static_cast<const void*>(kKernel)), 0);
  ASSERT_EQ(Call("cuModuleGetFunction", &function, module, "other"), 0);
  EXPECT_EQ(
      Call("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, static_cast<void*>(nullptr),
           static_cast<void**>(nullptr), static_cast<void**>(nullptr)),
      801);
  EXPECT_EQ(Call("cuMemAlloc_v2", &pointer, std::size_t{1} << 40), 2);
  char byte = 0;
  EXPECT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(&byte), Pointer{4096}, std::size_t{1}), 1);
}

TEST_F(CudaLibrary, MemoryHoldsWhatIsWritten) {
  Start("gpus: [{profile: T4}]");
  void* context = nullptr;
  ASSERT_EQ(Call("cuCtxCreate_v2", &context, 0u, 0), 0);
  constexpr std::size_t kWords = 1024;
  Pointer first = 0;
  Pointer second = 0;
  ASSERT_EQ(Call("cuMemAlloc_v2", &first, kWords * 4), 0);
  ASSERT_EQ(Call("cuMemAlloc_v2", &second, kWords * 4), 0);
  ASSERT_EQ(Call("cuMemsetD32_v2", first, 0xa5a5a5a5u, kWords), 0);
  ASSERT_EQ(Call("cuMemsetD32_v2", second, 0u, kWords), 0);
  ASSERT_EQ(Call("cuMemcpyDtoD_v2", second + 4, first, std::size_t{8}), 0);
  std::vector<unsigned> seen(kWords);
  ASSERT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(seen.data()), second, kWords * 4), 0);
  EXPECT_EQ(seen[0], 0u);
  EXPECT_EQ(seen[1], 0xa5a5a5a5u);
  EXPECT_EQ(seen[2], 0xa5a5a5a5u);
  EXPECT_EQ(seen[3], 0u);
  EXPECT_EQ(Call("cuMemsetD32_v2", first, 0u, kWords + 1), 1) << "behind the end";
  EXPECT_EQ(Call("cuMemcpyDtoD_v2", first + 4, first, std::size_t{8}), 1) << "overlapping";
}

TEST_F(CudaLibrary, PiecesThatAProgramFillsAreBoundedByTheHostsMemory) {
  Start("gpus: [{profile: T4}]");
  void* context = nullptr;
  ASSERT_EQ(Call("cuCtxCreate_v2", &context, 0u, 0), 0);
  Pointer whole = 0;
  EXPECT_EQ(Call("cuMemAlloc_v2", &whole, std::size_t{12} << 30), 0) << "the GPU has it";
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  ASSERT_EQ(Call("cuMemFree_v2", whole), 0);
  std::size_t pieces = 0;
  for (Pointer piece = 0; Call("cuMemAlloc_v2", &piece, kPiece) == 0;) ++pieces;
  EXPECT_GT(pieces, 0U);
  const auto host = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                    static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_LE(pieces * kPiece, host / 16);
}

TEST_F(CudaLibrary, StuckBitsAreSeenAtTheirPlaceOnly) {
  Start("gpus: [{profile: T4}]");
  ASSERT_TRUE(node_->file().Update([](NodeState& node) {
    node.gpus[0].stuck_byte = 5000;
    node.gpus[0].stuck_bits = 0x10;
    return true;
  }));
  void* context = nullptr;
  ASSERT_EQ(Call("cuCtxCreate_v2", &context, 0u, 0), 0);
  Pointer first = 0;
  Pointer second = 0;
  ASSERT_EQ(Call("cuMemAlloc_v2", &first, std::size_t{4096}), 0);
  ASSERT_EQ(Call("cuMemAlloc_v2", &second, std::size_t{4096}), 0);
  std::vector<unsigned char> seen(4096);
  for (const Pointer pointer : {first, second}) {
    ASSERT_EQ(Call("cuMemsetD32_v2", pointer, 0u, std::size_t{1024}), 0);
    ASSERT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(seen.data()), pointer, seen.size()), 0);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i], pointer == second && i == 5000 - 4096 ? 0x10 : 0) << i;
    }
  }
  // What was freed is used again: the place is that of the memory, not of the allocation.
  ASSERT_EQ(Call("cuMemFree_v2", first), 0);
  ASSERT_EQ(Call("cuMemAlloc_v2", &first, std::size_t{1024}), 0);
  ASSERT_EQ(Call("cuMemsetD32_v2", first, 0u, std::size_t{256}), 0);
  seen.assign(1024, 1);
  ASSERT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(seen.data()), first, seen.size()), 0);
  EXPECT_EQ(seen, std::vector<unsigned char>(1024, 0));
}

TEST_F(CudaLibrary, CopiesTakeTheTimeThatTheBoardWouldNeed) {
  Start("gpus: [{profile: H100-80}]");
  void* context = nullptr;
  ASSERT_EQ(Call("cuCtxCreate_v2", &context, 0u, 0), 0);
  void* start = nullptr;
  void* end = nullptr;
  ASSERT_EQ(Call("cuEventCreate", &start, 0u), 0);
  ASSERT_EQ(Call("cuEventCreate", &end, 0u), 0);
  float milliseconds = 0;
  EXPECT_EQ(Call("cuEventElapsedTime", &milliseconds, start, end), 400) << "not recorded yet";
  constexpr std::size_t kBytes = std::size_t{1} << 24;
  Pointer first = 0;
  Pointer second = 0;
  void* host = nullptr;
  ASSERT_EQ(Call("cuMemAlloc_v2", &first, kBytes), 0);
  ASSERT_EQ(Call("cuMemAlloc_v2", &second, kBytes), 0);
  ASSERT_EQ(Call("cuMemAllocHost_v2", &host, kBytes), 0);
  const auto seconds_of = [&](auto copy) {
    EXPECT_EQ(Call("cuEventRecord", start, static_cast<void*>(nullptr)), 0);
    copy();
    EXPECT_EQ(Call("cuEventRecord", end, static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(Call("cuEventSynchronize", end), 0);
    EXPECT_EQ(Call("cuEventElapsedTime", &milliseconds, start, end), 0);
    return milliseconds / 1e3;
  };
  const auto to_device = [&] {
    EXPECT_EQ(Call("cuMemcpyHtoD_v2", first, static_cast<const void*>(host), kBytes), 0);
  };
  // PCIe 5.0 with 16 lanes carries 64 GB/s; of the memory's 3352 GB/s a copy needs each twice.
  EXPECT_NEAR(kBytes / seconds_of(to_device) / 1e9, 51.2, 0.1);
  EXPECT_NEAR(
      2 * kBytes / seconds_of([&] {
        EXPECT_EQ(Call("cuMemcpyDtoDAsync_v2", second, first, kBytes, static_cast<void*>(nullptr)),
                  0);
      }) / 1e9,
      0.8 * 3352, 5);
  ASSERT_TRUE(node_->file().Update([](NodeState& node) {
    node.gpus[0].pcie_trained_generation = 1;
    node.gpus[0].pcie_trained_width = 4;
    return true;
  }));
  EXPECT_NEAR(kBytes / seconds_of(to_device) / 1e9, 0.8, 0.01) << "a slow link";
  EXPECT_EQ(Call("cuMemFreeHost", host), 0);
  EXPECT_EQ(Call("cuMemFreeHost", host), 1);
  EXPECT_EQ(Call("cuEventDestroy_v2", start), 0);
  EXPECT_EQ(Call("cuEventDestroy_v2", end), 0);
}

TEST_F(CudaLibrary, CopiesBetweenGpusGoOverNvLink) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  void* sender = nullptr;
  void* receiver = nullptr;
  Pointer from = 0;
  Pointer to = 0;
  constexpr std::size_t kBytes = 1 << 20;
  ASSERT_EQ(Call("cuCtxCreate_v2", &receiver, 0u, 1), 0);
  ASSERT_EQ(Call("cuMemAlloc_v2", &to, kBytes), 0);
  ASSERT_EQ(Call("cuCtxCreate_v2", &sender, 0u, 0), 0);
  ASSERT_EQ(Call("cuMemAlloc_v2", &from, kBytes), 0);
  ASSERT_EQ(Call("cuMemsetD32_v2", from, 7u, kBytes / 4), 0);
  EXPECT_EQ(Call("cuCtxEnablePeerAccess", receiver, 0u), 0);
  EXPECT_EQ(Call("cuCtxEnablePeerAccess", sender, 0u), 101) << "itself";
  void* start = nullptr;
  void* end = nullptr;
  ASSERT_EQ(Call("cuEventCreate", &start, 0u), 0);
  ASSERT_EQ(Call("cuEventCreate", &end, 0u), 0);
  const auto rate = [&] {
    float milliseconds = 0;
    EXPECT_EQ(Call("cuEventRecord", start, static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(
        Call("cuMemcpyPeerAsync", to, receiver, from, sender, kBytes, static_cast<void*>(nullptr)),
        0);
    EXPECT_EQ(Call("cuEventRecord", end, static_cast<void*>(nullptr)), 0);
    EXPECT_EQ(Call("cuEventElapsedTime", &milliseconds, start, end), 0);
    return kBytes / (milliseconds / 1e3) / 1e9;
  };
  // 18 links of 26.562 GB/s.
  EXPECT_NEAR(rate(), 0.8 * 18 * 26.562, 1);
  std::array<unsigned, 2> seen{};
  ASSERT_EQ(Call("cuCtxSetCurrent", receiver), 0);
  ASSERT_EQ(Call("cuMemcpyDtoH_v2", static_cast<void*>(seen.data()), to, sizeof(seen)), 0);
  EXPECT_EQ(seen, (std::array<unsigned, 2>{7, 7}));
  ASSERT_EQ(Call("cuCtxSetCurrent", sender), 0);
  ASSERT_TRUE(node_->file().Update([](NodeState& node) {
    node.gpus[1].links_down = (1U << 18) - 1;
    return true;
  }));
  EXPECT_NEAR(rate(), 51.2, 0.5) << "PCIe is left";
}

TEST_F(CudaLibrary, AVariableChoosesDevices) {
  node_ = std::make_unique<TestNode>("gpus: [{profile: H100-80}, {profile: L4}, {profile: T4}]");
  node_->Use();
  const std::string uuid = node_->file().Snapshot()->gpus[2].uuid;
  ::setenv("CUDA_VISIBLE_DEVICES", (uuid + ",1,9,0").c_str(), 1);
  EXPECT_EQ(Call("cuInit", 0u), 0);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  int count = 0;
  EXPECT_EQ(Call("cuDeviceGetCount", &count), 0);
  EXPECT_EQ(count, 2) << "the word that means none ends the list";
  char name[96] = {};
  EXPECT_EQ(Call("cuDeviceGetName", name, 96, 0), 0);
  EXPECT_STREQ(name, "Tesla T4");
  EXPECT_EQ(Call("cuDeviceGetName", name, 96, 1), 0);
  EXPECT_STREQ(name, "NVIDIA L4");
}

TEST_F(CudaLibrary, OneMigDeviceOfAGpu) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {2g.10gb: 1}}}]");
  char name[96] = {};
  EXPECT_EQ(Call("cuDeviceGetName", name, 96, 0), 0);
  EXPECT_STREQ(name, "NVIDIA A100-SXM4-40GB MIG 2g.10gb");
  std::size_t memory = 0;
  EXPECT_EQ(Call("cuDeviceTotalMem_v2", &memory, 0), 0);
  EXPECT_EQ(memory, 9856ull << 20);
}

}  // namespace
}  // namespace pitcrew::simulation

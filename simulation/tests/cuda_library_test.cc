// The built libcuda.so.1, loaded as programs load it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "simulation/state/discovery.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::simulation {
namespace {

using Pointer = unsigned long long;

constexpr const char* kKernel =
    ".version 7.0\n.target sm_52\n.visible .entry vectorAdd() { ret; }\n"
    ".visible .entry other() { ret; }\n";

class CudaLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = ::dlopen((std::string(PITCREW_BINARY_DIR) + "/lib/libcuda.so.1").c_str(),
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

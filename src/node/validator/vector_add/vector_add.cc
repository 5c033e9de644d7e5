// vectorAdd: adds two vectors on the first GPU through the CUDA driver API and compares with what
// the processor gets. It is what the validation pods run; it needs libcuda.so.1 and nothing else.
//
// Exit status: 0 the sums are right, 1 a CUDA call failed, 2 the sums are wrong, 3 there is no
// libcuda.so.1 or it lacks a function, 4 there is no GPU.
#include <dlfcn.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kCudaFailed = 1;
constexpr int kWrongResult = 2;
constexpr int kNoLibrary = 3;
constexpr int kNoGpu = 4;

constexpr unsigned kElements = 50000;
constexpr unsigned kThreadsPerBlock = 256;

// c[i] = a[i] + b[i] for i < n, for every GPU since Maxwell; the driver compiles it for the one it
// has.
constexpr const char* kProgram = R"(.version 6.0
.target sm_50
.address_size 64

.visible .entry vectorAdd(
    .param .u64 a,
    .param .u64 b,
    .param .u64 c,
    .param .u32 n
)
{
    .reg .pred %outside;
    .reg .b32 %block, %threads, %thread, %index, %count;
    .reg .b64 %pa, %pb, %pc, %offset;
    .reg .f32 %x, %y, %sum;

    ld.param.u64 %pa, [a];
    ld.param.u64 %pb, [b];
    ld.param.u64 %pc, [c];
    ld.param.u32 %count, [n];
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.s32 %index, %block, %threads, %thread;
    setp.ge.u32 %outside, %index, %count;
    @%outside bra done;
    cvta.to.global.u64 %pa, %pa;
    cvta.to.global.u64 %pb, %pb;
    cvta.to.global.u64 %pc, %pc;
    mul.wide.u32 %offset, %index, 4;
    add.s64 %pa, %pa, %offset;
    add.s64 %pb, %pb, %offset;
    add.s64 %pc, %pc, %offset;
    ld.global.f32 %x, [%pa];
    ld.global.f32 %y, [%pb];
    add.f32 %sum, %x, %y;
    st.global.f32 [%pc], %sum;
done:
    ret;
}
)";

// The driver API as far as it is used; names and types as in cuda.h.
using Result = int;
using Device = int;
using Address = std::uint64_t;  // CUdeviceptr
using Context = void*;
using Module = void*;
using Function = void*;

struct Cuda {
  Result (*init)(unsigned flags) = nullptr;
  Result (*device_count)(int* count) = nullptr;
  Result (*device)(Device* device, int ordinal) = nullptr;
  Result (*device_name)(char* name, int length, Device device) = nullptr;
  Result (*create_context)(Context* context, unsigned flags, Device device) = nullptr;
  Result (*destroy_context)(Context context) = nullptr;
  Result (*load)(Module* module, const void* image) = nullptr;
  Result (*function)(Function* function, Module module, const char* name) = nullptr;
  Result (*allocate)(Address* address, std::size_t bytes) = nullptr;
  Result (*free)(Address address) = nullptr;
  Result (*to_device)(Address target, const void* source, std::size_t bytes) = nullptr;
  Result (*to_host)(void* target, Address source, std::size_t bytes) = nullptr;
  Result (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra) = nullptr;
  Result (*synchronize)() = nullptr;
  Result (*error_name)(Result result, const char** name) = nullptr;
};

[[noreturn]] void End(int status, const char* what, const char* why) {
  std::fprintf(stderr, "vectorAdd: %s: %s\n", what, why);
  std::exit(status);
}

template <class Pointer>
void Bind(void* library, const char* name, Pointer& target) {
  target = reinterpret_cast<Pointer>(::dlsym(library, name));
  if (target == nullptr) End(kNoLibrary, name, "libcuda.so.1 does not have this function");
}

Cuda Open() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const char* reason = library == nullptr ? ::dlerror() : nullptr;
  const std::string first_reason = reason == nullptr ? "" : reason;
  // A container whose ld.so.cache does not know the driver's folders.
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
                           "/usr/lib/aarch64-linux-gnu/libcuda.so.1"}) {
    if (library == nullptr) library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) End(kNoLibrary, "no driver library", first_reason.c_str());
  Cuda cuda;
  Bind(library, "cuInit", cuda.init);
  Bind(library, "cuDeviceGetCount", cuda.device_count);
  Bind(library, "cuDeviceGet", cuda.device);
  Bind(library, "cuDeviceGetName", cuda.device_name);
  Bind(library, "cuCtxCreate_v2", cuda.create_context);
  Bind(library, "cuCtxDestroy_v2", cuda.destroy_context);
  Bind(library, "cuModuleLoadData", cuda.load);
  Bind(library, "cuModuleGetFunction", cuda.function);
  Bind(library, "cuMemAlloc_v2", cuda.allocate);
  Bind(library, "cuMemFree_v2", cuda.free);
  Bind(library, "cuMemcpyHtoD_v2", cuda.to_device);
  Bind(library, "cuMemcpyDtoH_v2", cuda.to_host);
  Bind(library, "cuLaunchKernel", cuda.launch);
  Bind(library, "cuCtxSynchronize", cuda.synchronize);
  Bind(library, "cuGetErrorName", cuda.error_name);
  return cuda;
}

class VectorAdd {
 public:
  explicit VectorAdd(const Cuda& cuda) : cuda_(cuda) {}

  int Run() {
    Check("cuInit", cuda_.init(0));
    OpenDevice();
    MakeInput();
    std::printf("Adding two vectors of %u elements\n", kElements);
    Compute();
    const bool right = IsRight();
    for (const Address address : {a_, b_, c_}) Check("cuMemFree", cuda_.free(address));
    Check("cuCtxDestroy", cuda_.destroy_context(context_));
    if (!right) return kWrongResult;
    std::printf("Test PASSED\nDone\n");
    return 0;
  }

 private:
  void Check(const char* call, Result result) const {
    if (result == 0) return;
    constexpr Result kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
    const char* name = nullptr;
    if (cuda_.error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
    End(result == kNoDevice ? kNoGpu : kCudaFailed, call, name);
  }

  void OpenDevice() {
    int count = 0;
    Check("cuDeviceGetCount", cuda_.device_count(&count));
    if (count < 1) End(kNoGpu, "cuDeviceGetCount", "there is no GPU in this container");
    Device device = 0;
    Check("cuDeviceGet", cuda_.device(&device, 0));
    char name[256] = "";
    Check("cuDeviceGetName", cuda_.device_name(name, sizeof name, device));
    std::printf("GPU 0 of %d: %s\n", count, name);
    Check("cuCtxCreate", cuda_.create_context(&context_, 0, device));
  }

  void MakeInput() {
    // Values whose sums are exact in single precision, so that the results must be equal.
    for (unsigned i = 0; i < kElements; ++i) {
      host_a_[i] = static_cast<float>(i % 1021) * 0.5F;
      host_b_[i] = static_cast<float>(i % 509) * 0.25F;
    }
  }

  void Compute() {
    constexpr std::size_t kBytes = kElements * sizeof(float);
    for (Address* address : {&a_, &b_, &c_}) Check("cuMemAlloc", cuda_.allocate(address, kBytes));
    Check("cuMemcpyHtoD", cuda_.to_device(a_, host_a_.data(), kBytes));
    Check("cuMemcpyHtoD", cuda_.to_device(b_, host_b_.data(), kBytes));
    Module module = nullptr;
    Check("cuModuleLoadData", cuda_.load(&module, kProgram));
    Function function = nullptr;
    Check("cuModuleGetFunction", cuda_.function(&function, module, "vectorAdd"));
    constexpr unsigned kBlocks = (kElements + kThreadsPerBlock - 1) / kThreadsPerBlock;
    unsigned count = kElements;
    void* parameters[] = {&a_, &b_, &c_, &count};
    Check("cuLaunchKernel", cuda_.launch(function, kBlocks, 1, 1, kThreadsPerBlock, 1, 1, 0,
                                         nullptr, parameters, nullptr));
    Check("cuCtxSynchronize", cuda_.synchronize());
    Check("cuMemcpyDtoH", cuda_.to_host(host_c_.data(), c_, kBytes));
  }

  [[nodiscard]] bool IsRight() const {
    for (unsigned i = 0; i < kElements; ++i) {
      const float expected = host_a_[i] + host_b_[i];
      if (std::fabs(host_c_[i] - expected) > 1e-5F) {
        std::fprintf(stderr, "vectorAdd: element %u is %g and should be %g\n", i,
                     static_cast<double>(host_c_[i]), static_cast<double>(expected));
        return false;
      }
    }
    return true;
  }

  const Cuda& cuda_;
  Context context_ = nullptr;
  Address a_ = 0;
  Address b_ = 0;
  Address c_ = 0;
  std::vector<float> host_a_ = std::vector<float>(kElements);
  std::vector<float> host_b_ = std::vector<float>(kElements);
  std::vector<float> host_c_ = std::vector<float>(kElements, -1.0F);
};

}  // namespace

int main() {
  const Cuda cuda = Open();
  return VectorAdd(cuda).Run();
}

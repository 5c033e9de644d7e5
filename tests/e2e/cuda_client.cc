// A process that uses the GPU it was given, for tests of whole clusters: tells what CUDA lets it
// have, takes as much memory as its arguments say (MiB each), makes the file that its first
// argument names, and keeps what it has until it is ended.
//
//   multiprocessors 66
//   free 40779 MiB
//   1024 MiB: 0
//   99999 MiB: 2
//
// The numbers behind the sizes are CUDA's results. Needs glibc and a libcuda.so.1, as a user's
// program does.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

void* library = nullptr;

// The function of that name; ends the process where there is none.
template <class... Arguments>
int Call(const char* name, Arguments... arguments) {
  auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "no function %s\n", name);
    std::exit(1);
  }
  return function(arguments...);
}

constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

}  // namespace

int main(int argc, char** argv) {
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  void* context = nullptr;
  int result = Call("cuInit", 0U);
  if (result == 0) result = Call("cuCtxCreate_v2", &context, 0U, 0);
  if (result != 0) {
    std::printf("no context: %d\n", result);
    return 2;
  }
  int multiprocessors = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  Call("cuDeviceGetAttribute", &multiprocessors, kMultiprocessorCount, 0);
  Call("cuMemGetInfo_v2", &free, &total);
  std::printf("multiprocessors %d\nfree %zu MiB\n", multiprocessors, free >> 20);
  for (int i = 2; i < argc; ++i) {
    unsigned long long pointer = 0;
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10) << 20;
    std::printf("%s MiB: %d\n", argv[i], Call("cuMemAlloc_v2", &pointer, bytes));
  }
  std::fflush(stdout);
  std::FILE* told = argc > 1 ? std::fopen(argv[1], "w") : nullptr;
  if (told == nullptr || std::fclose(told) != 0) return 1;
  ::pause();
  return 0;
}

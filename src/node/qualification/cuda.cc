#include "node/qualification/cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "host/driver_root.h"

namespace pitcrew::node::qualification {
namespace {

// The loader's search; where the container's linker cache does not know the driver's folders,
// these.
void* OpenLibrary() {
  const std::string name(host::kCudaLibrary);
  if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const auto path = host::FindLibrary(host::Root("/"), host::kCudaLibrary);
  return path ? ::dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
}

}  // namespace

base::Result<Cuda> Cuda::Open() {
  void* library = OpenLibrary();
  if (library == nullptr) {
    return base::Fail(base::NotFound(
        "CudaLibraryNotFound",
        fmt::format("there is no {} here: has this container been given the node's GPUs?",
                    host::kCudaLibrary)));
  }
  Cuda cuda;
  std::string_view missing;
#define PITCREW_CUDA_LOAD(name, symbol, ...)                                    \
  cuda.name = reinterpret_cast<decltype(cuda.name)>(::dlsym(library, #symbol)); \
  if (cuda.name == nullptr) missing = #symbol;
  PITCREW_CUDA_FUNCTIONS(PITCREW_CUDA_LOAD)
#undef PITCREW_CUDA_LOAD
  if (!missing.empty()) {
    return base::Fail(
        base::Error{base::Code::kUnsupported, "CudaFunctionMissing",
                    fmt::format("the driver's {} has no {}", host::kCudaLibrary, missing)});
  }
  return cuda;
}

base::Status Cuda::Check(std::string_view call, cuda::Result result) const {
  if (result == cuda::kSuccess) return {};
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != cuda::kSuccess || name == nullptr) name = "unknown error";
  return base::Fail(
      base::Unavailable("CudaFailed", fmt::format("{}: {} ({})", call, name, result)));
}

}  // namespace pitcrew::node::qualification

// The CUDA driver API as far as it is used here, from the driver's own libcuda.so.1, opened at run
// time: there is no CUDA toolkit in Pitcrew. Names and types are those of cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace pitcrew::node::qualification {

namespace cuda {
using Result = int;
using Device = int;
using Address = unsigned long long;  // CUdeviceptr
using Context = void*;
using Event = void*;
using Stream = void*;
inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
}  // namespace cuda

// FUNCTION(name in cuda.h, symbol in the library, parameter types)
#define PITCREW_CUDA_FUNCTIONS(FUNCTION)                                                       \
  FUNCTION(cuInit, cuInit, unsigned)                                                           \
  FUNCTION(cuDeviceGetCount, cuDeviceGetCount, int*)                                           \
  FUNCTION(cuDeviceGet, cuDeviceGet, cuda::Device*, int)                                       \
  FUNCTION(cuCtxCreate, cuCtxCreate_v2, cuda::Context*, unsigned, cuda::Device)                \
  FUNCTION(cuCtxDestroy, cuCtxDestroy_v2, cuda::Context)                                       \
  FUNCTION(cuCtxSetCurrent, cuCtxSetCurrent, cuda::Context)                                    \
  FUNCTION(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, cuda::Context, unsigned)              \
  FUNCTION(cuCtxSynchronize, cuCtxSynchronize)                                                 \
  FUNCTION(cuMemGetInfo, cuMemGetInfo_v2, std::size_t*, std::size_t*)                          \
  FUNCTION(cuMemAlloc, cuMemAlloc_v2, cuda::Address*, std::size_t)                             \
  FUNCTION(cuMemFree, cuMemFree_v2, cuda::Address)                                             \
  FUNCTION(cuMemAllocHost, cuMemAllocHost_v2, void**, std::size_t)                             \
  FUNCTION(cuMemFreeHost, cuMemFreeHost, void*)                                                \
  FUNCTION(cuMemsetD32, cuMemsetD32_v2, cuda::Address, unsigned, std::size_t)                  \
  FUNCTION(cuMemcpyHtoD, cuMemcpyHtoD_v2, cuda::Address, const void*, std::size_t)             \
  FUNCTION(cuMemcpyDtoH, cuMemcpyDtoH_v2, void*, cuda::Address, std::size_t)                   \
  FUNCTION(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, cuda::Address, cuda::Address, std::size_t, \
           cuda::Stream)                                                                       \
  FUNCTION(cuMemcpyPeerAsync, cuMemcpyPeerAsync, cuda::Address, cuda::Context, cuda::Address,  \
           cuda::Context, std::size_t, cuda::Stream)                                           \
  FUNCTION(cuEventCreate, cuEventCreate, cuda::Event*, unsigned)                               \
  FUNCTION(cuEventDestroy, cuEventDestroy_v2, cuda::Event)                                     \
  FUNCTION(cuEventRecord, cuEventRecord, cuda::Event, cuda::Stream)                            \
  FUNCTION(cuEventSynchronize, cuEventSynchronize, cuda::Event)                                \
  FUNCTION(cuEventElapsedTime, cuEventElapsedTime, float*, cuda::Event, cuda::Event)           \
  FUNCTION(cuGetErrorName, cuGetErrorName, cuda::Result, const char**)

class Cuda {
 public:
  // kNotFound "CudaLibraryNotFound"; kUnsupported "CudaFunctionMissing" for a library that lacks a
  // function. The library stays loaded until the process ends: drivers do not like to be unloaded.
  static base::Result<Cuda> Open();

#define PITCREW_CUDA_MEMBER(name, symbol, ...) cuda::Result (*name)(__VA_ARGS__) = nullptr;
  PITCREW_CUDA_FUNCTIONS(PITCREW_CUDA_MEMBER)
#undef PITCREW_CUDA_MEMBER

  // kUnavailable "CudaFailed": "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY".
  [[nodiscard]] base::Status Check(std::string_view call, cuda::Result result) const;
};

// CUDA_TRY(cuda, cuMemFree, address) returns from the enclosing function where the call fails.
#define CUDA_TRY(api, function, ...) TRY((api).Check(#function, (api).function(__VA_ARGS__)))

}  // namespace pitcrew::node::qualification

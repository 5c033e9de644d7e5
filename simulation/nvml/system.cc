// Initialisation, versions, error texts.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "simulation/nvml/session.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

NVML_API Return nvmlInit_v2() { return Session::Get().Initialize(); }
NVML_API Return nvmlInit() { return Session::Get().Initialize(); }
NVML_API Return nvmlInitWithFlags(unsigned) { return Session::Get().Initialize(); }
NVML_API Return nvmlShutdown() { return Session::Get().Shutdown(); }

NVML_API const char* nvmlErrorString(Return code) {
  switch (code) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNoPermission:
      return "Insufficient Permissions";
    case kAlreadyInitialized:
      return "Already Initialized";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kInsufficientPower:
      return "Insufficient External Power";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case kTimeout:
      return "Timeout";
    case kIrqIssue:
      return "Interrupt Request Issue";
    case kLibraryNotFound:
      return "NVML Shared Library Not Found";
    case kFunctionNotFound:
      return "Function Not Found";
    case kCorruptedInforom:
      return "Corrupted infoROM";
    case kGpuIsLost:
      return "GPU is lost";
    case kResetRequired:
      return "GPU requires restart";
    case kOperatingSystem:
      return "The operating system has blocked the request.";
    case kLibRmVersionMismatch:
      return "RM has detected an NVML/RM version mismatch.";
    case kInUse:
      return "In use by another client";
    case kMemory:
      return "Insufficient Memory";
    case kNoData:
      return "No data";
    case kVgpuEccNotSupported:
      return "Invalid vGPU ECC mode";
    case kInsufficientResources:
      return "Insufficient Resources";
    case kFreqNotSupported:
      return "Frequency Not Supported";
    case kArgumentVersionMismatch:
      return "Argument Version Mismatch";
    case kDeprecated:
      return "Deprecated";
    case kNotReady:
      return "System Not Ready";
    case kGpuNotFound:
      return "GPU Not Found";
    case kInvalidState:
      return "Invalid State";
    case kResetTypeNotSupported:
      return "Reset Type Not Supported";
    default:
      return "Unknown Error";
  }
}

NVML_API Return nvmlSystemGetDriverVersion(char* version, unsigned length) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  return CopyText(file->Snapshot()->driver_version, version, length);
}

// NVML's own version is the CUDA major in front of the driver version: 13.580.95.05.
NVML_API Return nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  const auto node = file->Snapshot();
  return CopyText(std::to_string(node->cuda_version / 1000) + "." + node->driver_version, version,
                  length);
}

NVML_API Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(version != nullptr);
  *version = static_cast<int>(file->Snapshot()->cuda_version);
  return kSuccess;
}
NVML_API Return nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

namespace {

// The program of a process that lives on this machine; empty when there is none.
std::string LivingProcess(unsigned pid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return {};
  char text[4096] = {};
  const std::size_t length = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  return std::string(text, ::strnlen(text, length));  // up to the end of the first argument
}

}  // namespace

// Processes that a fault put on a GPU have names of their own; every other one has its program's.
NVML_API Return nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(name != nullptr && length > 0);
  const auto node = file->Snapshot();
  std::string found;
  for (const auto& gpu : node->gpus) {
    for (const auto& process : gpu.processes) {
      if (process.pid != 0 && process.pid == pid) found = process.name;
    }
  }
  if (found.empty()) found = LivingProcess(pid);
  if (found.empty()) return kNotFound;
  // A name longer than the buffer is cut, as the real library does.
  std::snprintf(name, length, "%s", found.c_str());
  return kSuccess;
}

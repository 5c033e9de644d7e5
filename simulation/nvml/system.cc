// Initialisation, versions, error texts.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "simulation/nvml/session.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

NVML_API Return nvmlInit_v2() { return Session::Get().Initialize(); }
NVML_API Return nvmlInit() { return Session::Get().Initialize(); }
NVML_API Return nvmlInitWithFlags(unsigned) { return Session::Get().Initialize(); }
NVML_API Return nvmlShutdown() { return Session::Get().Shutdown(); }

namespace {

struct ErrorText {
  Return code;
  const char* text;
};
constexpr ErrorText kErrorTexts[] = {
    {kSuccess, "Success"},
    {kUninitialized, "Uninitialized"},
    {kInvalidArgument, "Invalid Argument"},
    {kNotSupported, "Not Supported"},
    {kNoPermission, "Insufficient Permissions"},
    {kAlreadyInitialized, "Already Initialized"},
    {kNotFound, "Not Found"},
    {kInsufficientSize, "Insufficient Size"},
    {kInsufficientPower, "Insufficient External Power"},
    {kDriverNotLoaded, "Driver Not Loaded"},
    {kTimeout, "Timeout"},
    {kIrqIssue, "Interrupt Request Issue"},
    {kLibraryNotFound, "NVML Shared Library Not Found"},
    {kFunctionNotFound, "Function Not Found"},
    {kCorruptedInforom, "Corrupted infoROM"},
    {kGpuIsLost, "GPU is lost"},
    {kResetRequired, "GPU requires restart"},
    {kOperatingSystem, "The operating system has blocked the request."},
    {kLibRmVersionMismatch, "RM has detected an NVML/RM version mismatch."},
    {kInUse, "In use by another client"},
    {kMemory, "Insufficient Memory"},
    {kNoData, "No data"},
    {kVgpuEccNotSupported, "Invalid vGPU ECC mode"},
    {kInsufficientResources, "Insufficient Resources"},
    {kFreqNotSupported, "Frequency Not Supported"},
    {kArgumentVersionMismatch, "Argument Version Mismatch"},
    {kDeprecated, "Deprecated"},
    {kNotReady, "System is not in ready state"},
    {kGpuNotFound, "GPU Not Found"},
    {kInvalidState, "Invalid State"},
    {kResetTypeNotSupported, "Reset Type Not Supported"}};

}  // namespace

NVML_API const char* nvmlErrorString(Return code) {
  const auto* found = std::ranges::find(kErrorTexts, code, &ErrorText::code);
  return found == std::end(kErrorTexts) ? "Unknown Error" : found->text;
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

#include "nvml/errors.h"

#include <algorithm>
#include <array>
#include <string>

namespace pitcrew::nvml {
namespace {

struct Meaning {
  abi::Return number;
  base::Code code;
  std::string_view reason;
  std::string_view text;
};

using base::Code;

constexpr std::array kMeanings = {
    Meaning{abi::kUninitialized, Code::kInternal, "NvmlUninitialized", "NVML is not initialised"},
    Meaning{abi::kInvalidArgument, Code::kInvalid, "NvmlInvalidArgument",
            "NVML refused an argument"},
    Meaning{abi::kNotSupported, Code::kUnsupported, "NotSupported", "the GPU does not support it"},
    Meaning{abi::kNoPermission, Code::kDenied, "NoPermission", "this needs more permissions"},
    Meaning{abi::kNotFound, Code::kNotFound, "NotFound", "there is no such thing"},
    Meaning{abi::kInsufficientSize, Code::kInternal, "InsufficientSize", "a buffer is too small"},
    Meaning{abi::kInsufficientPower, Code::kUnavailable, "InsufficientPower",
            "the GPU's external power is not connected"},
    Meaning{abi::kDriverNotLoaded, Code::kUnavailable, "DriverNotLoaded",
            "the NVIDIA kernel driver is not loaded"},
    Meaning{abi::kTimeout, Code::kTimeout, "Timeout", "the time ran out"},
    Meaning{abi::kIrqIssue, Code::kUnavailable, "IrqIssue", "the GPU has an interrupt problem"},
    Meaning{abi::kLibraryNotFound, Code::kNotFound, "LibraryNotFound",
            "NVML lacks one of its libraries"},
    Meaning{abi::kFunctionNotFound, Code::kUnsupported, "NvmlFunctionMissing",
            "the driver is too old for it"},
    Meaning{abi::kCorruptedInforom, Code::kInternal, "CorruptedInforom",
            "the GPU's infoROM is corrupted"},
    Meaning{abi::kGpuIsLost, Code::kUnavailable, "GpuIsLost",
            "the GPU has fallen off the bus; the node has to be restarted"},
    Meaning{abi::kResetRequired, Code::kUnavailable, "ResetRequired",
            "the GPU has to be reset before it can be used again"},
    Meaning{abi::kOperatingSystem, Code::kDenied, "OperatingSystemBlocked",
            "the operating system blocked the request"},
    Meaning{abi::kLibRmVersionMismatch, Code::kUnavailable, "DriverLibraryMismatch",
            "the library and the loaded kernel driver have different versions"},
    Meaning{abi::kInUse, Code::kConflict, "InUse", "the GPU is in use"},
    Meaning{abi::kMemory, Code::kUnavailable, "OutOfMemory", "memory ran out"},
    Meaning{abi::kNoData, Code::kUnavailable, "NoData", "there is no data"},
    Meaning{abi::kVgpuEccNotSupported, Code::kUnsupported, "VgpuEccNotSupported",
            "the vGPU's ECC mode does not allow it"},
    Meaning{abi::kInsufficientResources, Code::kConflict, "InsufficientResources",
            "the GPU has not enough resources left"},
    Meaning{abi::kFreqNotSupported, Code::kInvalid, "FrequencyNotSupported",
            "the GPU has no such frequency"},
    Meaning{abi::kArgumentVersionMismatch, Code::kUnsupported, "ArgumentVersionMismatch",
            "the driver does not know this version of the structure"},
    Meaning{abi::kDeprecated, Code::kUnsupported, "Deprecated", "the function is gone"},
    Meaning{abi::kNotReady, Code::kUnavailable, "NotReady", "the system is not ready"},
    Meaning{abi::kGpuNotFound, Code::kNotFound, "GpuNotFound", "no GPU was found"},
    Meaning{abi::kInvalidState, Code::kConflict, "InvalidState",
            "the GPU's state does not allow it"},
};

}  // namespace

base::Error FromReturn(abi::Return code, std::string_view what) {
  const auto found = std::ranges::find(kMeanings, code, &Meaning::number);
  const bool known = found != kMeanings.end();
  std::string message = "cannot " + std::string(what) + ": ";
  message += known ? found->text : "NVML answered with an unknown error";
  message += " (NVML code " + std::to_string(code) + ")";
  return {known ? found->code : Code::kInternal,
          std::string(known ? found->reason : "NvmlUnknownError"), std::move(message)};
}

base::Error MissingFunction(std::string_view name) {
  return {Code::kUnsupported, "NvmlFunctionMissing",
          "the NVML library has no function " + std::string(name) + "; the driver is too old"};
}

}  // namespace pitcrew::nvml

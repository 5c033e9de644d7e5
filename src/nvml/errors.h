// NVML's return codes as errors with stable reasons (listed in nvml.h).
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/result.h"
#include "nvml/abi.h"

namespace pitcrew::nvml {

// `what` names the call's purpose: "read the name of GPU 3".
[[nodiscard]] base::Error FromReturn(abi::Return code, std::string_view what);

// kUnsupported "NvmlFunctionMissing".
[[nodiscard]] base::Error MissingFunction(std::string_view name);

// Calls a function that may be missing.
template <class Function, class... Arguments>
base::Status Call(Function* function, std::string_view name, std::string_view what,
                  Arguments... arguments) {
  if (function == nullptr) return base::Fail(MissingFunction(name));
  const abi::Return code = function(arguments...);
  if (code == abi::kSuccess) return {};
  return base::Fail(FromReturn(code, what));
}

}  // namespace pitcrew::nvml

// NVML_CALL(symbols, nvmlDeviceGetName, "read a GPU's name", handle, buffer, size)
#define NVML_CALL(symbols, function, what, ...) \
  ::pitcrew::nvml::Call((symbols).function, #function, what __VA_OPT__(, ) __VA_ARGS__)

// From NVML's return codes and values to answers; private to this room.
#pragma once

#include <cstdint>

#include "nvml/abi_metrics.h"
#include "nvml/meter.h"

namespace pitcrew::nvml {

inline Silence SilenceOf(abi::Return code) {
  switch (code) {
    case abi::kNotSupported:
    case abi::kFunctionNotFound:
      return Silence::kNotSupported;
    case abi::kNoPermission:
      return Silence::kNoPermission;
    case abi::kNotFound:
      return Silence::kNotFound;
    default:
      return Silence::kFailed;
  }
}

// A function that the library lacks is one that is not supported.
template <class Function, class... Arguments>
abi::Return Try(Function* function, Arguments... arguments) {
  return function == nullptr ? abi::kFunctionNotFound : function(arguments...);
}

inline Answer NumberOr(abi::Return code, std::uint64_t value) {
  if (code != abi::kSuccess) return SilenceOf(code);
  return static_cast<std::int64_t>(value);
}

// What a function writes into its last parameter.
template <class Function, class... Arguments>
Answer AskNumber(Function* function, Arguments... arguments) {
  unsigned value = 0;
  const auto code = Try(function, arguments..., &value);
  return NumberOr(code, value);
}

// A value that has its type beside it (nvmlValueType_t).
inline Answer ValueOr(abi::Return code, unsigned type, const abi::Value& value) {
  if (code != abi::kSuccess) return SilenceOf(code);
  const auto integer = [](auto number) { return Answer(static_cast<std::int64_t>(number)); };
  switch (type) {
    case abi::kValueDouble:
      return value.as_double;
    case abi::kValueUnsignedInt:
      return integer(value.as_unsigned);
    case abi::kValueUnsignedLong:
      return integer(value.as_unsigned_long);
    case abi::kValueSignedInt:
      return integer(value.as_int);
    case abi::kValueUnsignedShort:
      return integer(value.as_unsigned_short);
    case abi::kValueUnsignedLongLong:
    case abi::kValueSignedLongLong:
      return integer(value.as_long_long);
    default:
      return Silence::kFailed;
  }
}

}  // namespace pitcrew::nvml

// A value or an Error. Nothing in Pitcrew throws across a room's border.
#pragma once

#include <expected>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace pitcrew::base {

template <class T>
using Result = std::expected<T, Error>;

// For the errors of functions that return nothing else.
using Status = Result<void>;

[[nodiscard]] inline std::unexpected<Error> Fail(Error error) {
  return std::unexpected<Error>(std::move(error));
}

}  // namespace pitcrew::base

#define PITCREW_JOIN_INNER(a, b) a##b
#define PITCREW_JOIN(a, b) PITCREW_JOIN_INNER(a, b)

// TRY(expression) returns the error of a Result from the enclosing function.
#define TRY(expression)                                       \
  do {                                                        \
    if (auto try_result_ = (expression); !try_result_) {      \
      return std::unexpected(std::move(try_result_).error()); \
    }                                                         \
  } while (false)

// TRY_ASSIGN(auto value, expression) also binds the value.
#define TRY_ASSIGN(target, ...)                                                     \
  auto PITCREW_JOIN(try_assign_, __LINE__) = (__VA_ARGS__);                         \
  if (!PITCREW_JOIN(try_assign_, __LINE__)) {                                       \
    return std::unexpected(std::move(PITCREW_JOIN(try_assign_, __LINE__)).error()); \
  }                                                                                 \
  target = *std::move(PITCREW_JOIN(try_assign_, __LINE__))

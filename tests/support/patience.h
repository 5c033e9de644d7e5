// How long a test waits for what has to come.
#pragma once

#include <chrono>

namespace pitcrew::test_support {

// Most of what tests wait for comes within a second. A test fails by this limit only when it never
// comes: a machine that builds something else at the same time, or a sanitizer, must not decide.
// Below every TIMEOUT of cmake/Room.cmake.
constexpr std::chrono::seconds kPatience{240};

}  // namespace pitcrew::test_support

// A kernel without pidfd_open(2), as those before 5.3 and the seccomp profiles of older container
// runtimes are.
#pragma once

#include <functional>

namespace pitcrew::test_support {

// Runs `work` in a thread in which the call fails with ENOSYS, and waits for its end. Programs that
// it starts inherit that.
void WithoutPidfd(const std::function<void()>& work);

}  // namespace pitcrew::test_support

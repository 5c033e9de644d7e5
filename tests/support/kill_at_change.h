// kill -9 at every step: a process of its own that is killed right before one of the system calls
// with which it changes files.
#pragma once

#include <functional>

namespace pitcrew::test_support {

// Runs `work` in a child process, and kills it as it begins its change `number`, from 1 (files
// made, renamed, removed, given other modes or owners). False when it made fewer: then it ran to
// its end. `work` is for one thread.
bool KillAtChange(int number, const std::function<void()>& work);

}  // namespace pitcrew::test_support

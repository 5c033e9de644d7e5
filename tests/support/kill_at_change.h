// kill -9 at every step: a process of its own that is killed right before one of the system calls
// with which it changes files.
#pragma once

#include <functional>

namespace pitcrew::test_support {

// Runs `work` in a child process, and kills it as it begins its change `number`, from 1 (files
// opened to be written, written, renamed, removed, given other modes or owners). False when it made
// fewer: then it ran to its end. `work` is for one thread.
bool KillAtChange(int number, const std::function<void()>& work);

// The same, but it goes on to its end after `meanwhile` has run in this process: another one that
// changes the same files in that moment.
bool InterruptAtChange(int number, const std::function<void()>& work,
                       const std::function<void()>& meanwhile);

// The same, but it is killed as it begins its change `later`, counted from there; false when it ran
// to its end.
bool KillAfterInterrupt(int number, int later, const std::function<void()>& work,
                        const std::function<void()>& meanwhile);

// As InterruptAtChange, at the first system call of this number: one that changes nothing.
bool InterruptAtCall(long call, const std::function<void()>& work,
                     const std::function<void()>& meanwhile);

}  // namespace pitcrew::test_support

// Who opens a file: how a test sees that a library is loaded once more.
#pragma once

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"
#include "tests/support/patience.h"

namespace pitcrew::test_support {

class FileOpens {
 public:
  // Counts from here on.
  explicit FileOpens(const std::filesystem::path& file) : inotify_(::inotify_init1(IN_CLOEXEC)) {
    EXPECT_GE(::inotify_add_watch(inotify_.get(), file.c_str(), IN_OPEN), 0) << file;
  }

  // Waits until somebody has opened the file that many times more.
  base::Status Wait(int times) const {
    std::array<char, 4096> events{};
    const auto deadline = base::Deadline::After(kPatience);
    while (times > 0) {
      TRY(io::WaitReadable({inotify_.get()}, {}, deadline));
      const auto size = ::read(inotify_.get(), events.data(), events.size());
      // Each is of the same size: events of a file that is watched itself have no name.
      times -= static_cast<int>(size / static_cast<ssize_t>(sizeof(inotify_event)));
    }
    return {};
  }

 private:
  base::FileDescriptor inotify_;
};

}  // namespace pitcrew::test_support

// Copies what is written to a log file to standard output, as `tail -n +1 -f` does.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace pitcrew::node::mps {

class LogFollower {
 public:
  explicit LogFollower(std::filesystem::path file) : file_(std::move(file)) {}

  // Copies what has come since the last time; a file that is not there, or cannot be read, has
  // nothing.
  void Copy();

 private:
  std::filesystem::path file_;
  off_t copied_ = 0;
};

}  // namespace pitcrew::node::mps

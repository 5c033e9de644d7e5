// One toolkit per node: a locked file with the process's number.
#pragma once

#include <filesystem>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::node::toolkit {

// Holds the lock until it is destroyed; the file is removed then. The lock is taken before the file
// is touched, so a second instance does not wipe the first one's number (13 row 16).
class PidFile {
 public:
  // kUnavailable "AlreadyRunning" names the process that holds the lock.
  static base::Result<PidFile> Lock(const std::filesystem::path& path);
  PidFile(PidFile&&) = default;
  PidFile& operator=(PidFile&&) = delete;
  ~PidFile();

 private:
  PidFile(std::filesystem::path path, base::FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  base::FileDescriptor file_;
};

}  // namespace pitcrew::node::toolkit

// A folder that is open: all that is read through it is of the same folder, also when another one
// takes its name meanwhile (a device that is plugged in again), and its path is walked once.
#pragma once

#include <filesystem>
#include <string>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::host {

class Folder {
 public:
  // kNotFound when there is none.
  static base::Result<Folder> Open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // `inside` is a name in it, or a path below it. Errors as of base::ReadFile and host::ReadLink,
  // and they name the whole path.
  [[nodiscard]] base::Result<std::string> Read(const std::filesystem::path& inside) const;
  [[nodiscard]] base::Result<std::string> Link(const std::filesystem::path& inside) const;

 private:
  Folder(std::filesystem::path path, base::FileDescriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::filesystem::path path_;
  base::FileDescriptor folder_;
};

}  // namespace pitcrew::host

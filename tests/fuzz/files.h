// Inputs as files, for readers that take paths.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "fuzz/target.h"

namespace pitcrew::fuzz {

// A folder in memory for readers that take paths; left behind when the process is killed.
class Folder {
 public:
  Folder() {
    char name[] = "/dev/shm/pitcrew-fuzz-XXXXXX";
    Check(::mkdtemp(name) != nullptr, "a folder can be made in /dev/shm");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void Write(const std::filesystem::path& name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc) << content;
  }

 private:
  std::filesystem::path path_;
};

// The input's parts between zero bytes, for readers of several files.
inline std::vector<std::string_view> Parts(std::string_view input, std::size_t count) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const auto end = input.find('\0');
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  parts.push_back(input);
  return parts;
}

}  // namespace pitcrew::fuzz

// A folder of a test's own.
#pragma once

#include <filesystem>
#include <string_view>

namespace pitcrew::test_support {

// Made by the constructor, removed with everything in it by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a file below the folder, parents included, and returns its path.
  std::filesystem::path Write(const std::filesystem::path& inside, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

}  // namespace pitcrew::test_support

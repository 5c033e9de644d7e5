#include "tests/support/temporary_folder.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace pitcrew::test_support {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "pitcrew-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::Write(const std::filesystem::path& inside,
                                             std::string_view content) const {
  const auto path = path_ / inside;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << content;
  return path;
}

}  // namespace pitcrew::test_support

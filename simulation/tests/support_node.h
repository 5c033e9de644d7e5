// A simulated node of its own in a temporary folder, for tests.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "simulation/state/state_file.h"

namespace pitcrew::simulation {

class TestNode {
 public:
  // `description` is YAML; the driver is loaded. Aborts the test program when it is malformed.
  explicit TestNode(const std::string& description);
  ~TestNode();
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path state_path() const { return folder_ / "state"; }
  StateFile& file() { return *file_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<StateFile> file_;
};

// A fresh folder; the caller removes it.
std::filesystem::path MakeTemporaryFolder();

}  // namespace pitcrew::simulation

// A simulated node of its own in a temporary folder, for tests.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

  // Lets libraries that this process or its children load find this node and see all its GPUs, or
  // only those with the given minor numbers: sets environment variables until this object ends.
  void Use();
  void Use(const std::vector<unsigned>& minors);
  // Those variables.
  [[nodiscard]] std::map<std::string, std::string> Environment() const;

 private:
  void Export() const;

  std::filesystem::path folder_;
  bool used_ = false;
  std::shared_ptr<StateFile> file_;
};

// A fresh folder; the caller removes it.
std::filesystem::path MakeTemporaryFolder();

}  // namespace pitcrew::simulation

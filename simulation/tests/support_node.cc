#include "simulation/tests/support_node.h"

#include <cstdio>
#include <cstdlib>

#include "simulation/description/description.h"

namespace pitcrew::simulation {

std::filesystem::path MakeTemporaryFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "pitcrew-simulation-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  return name;
}

TestNode::TestNode(const std::string& description) : folder_(MakeTemporaryFolder()) {
  auto node = ParseDescription(description, "test", {"test-node", "", {}});
  if (node) {
    node->driver_loaded = 1;
    if (auto file = StateFile::Create(state_path(), *node)) file_ = *std::move(file);
  } else {
    std::fprintf(stderr, "%s\n", node.error().message.c_str());
  }
  if (!file_) std::abort();
}

TestNode::~TestNode() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace pitcrew::simulation

#include "simulation/testing/test_node.h"

#include <cstdio>
#include <cstdlib>

#include "simulation/description/description.h"
#include "simulation/driver/files.h"
#include "simulation/state/discovery.h"

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

std::map<std::string, std::string> TestNode::Environment() const {
  return {{kStateVariable, state_path().string()}, {kDevVariable, (folder_ / "dev").string()}};
}

void TestNode::Export() const {
  for (const auto& [name, value] : Environment()) ::setenv(name.c_str(), value.c_str(), 1);
}

void TestNode::Use() {
  if (!MakeDeviceNodes(folder_ / "dev", *file_->Snapshot())) std::abort();
  used_ = true;
  Export();
}

void TestNode::Use(const std::vector<unsigned>& minors) {
  NodeState shown = *file_->Snapshot();
  const NodeState all = shown;
  shown.gpu_count = 0;
  for (std::uint32_t i = 0; i < all.gpu_count; ++i) {
    for (const unsigned minor : minors) {
      if (all.gpus[i].minor_number == minor) shown.gpus[shown.gpu_count++] = all.gpus[i];
    }
  }
  if (!MakeDeviceNodes(folder_ / "dev", shown)) std::abort();
  used_ = true;
  Export();
}

TestNode::~TestNode() {
  if (used_) {
    for (const auto& [name, value] : Environment()) ::unsetenv(name.c_str());
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace pitcrew::simulation

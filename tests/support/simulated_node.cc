#include "tests/support/simulated_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace pitcrew::test_support {

SimulatedNode::SimulatedNode(std::string_view description)
    : description_(folder_.Write("gpus.yaml", description)) {
  std::filesystem::create_directories(kubelet_folder());
  std::filesystem::create_directories(driver_root());
  Simulate({"pci-tree", "--into", pci_devices().string(), "--description", description_.string(),
            "--node-name", "node"});
}

void SimulatedNode::InstallDriver() const {
  Simulate({"driver-install", "--root", driver_root().string(), "--description",
            description_.string(), "--node-name", "node"});
}

void SimulatedNode::Gpu(const std::vector<std::string>& words) const {
  std::vector<std::string> all = {"gpu"};
  all.insert(all.end(), words.begin(), words.end());
  all.emplace_back("--state");
  all.push_back((driver_root() / "run/nvidia/simulation/state").string());
  Simulate(all);
}

void SimulatedNode::Simulate(std::vector<std::string> words) const {
  EXPECT_EQ(Program("pitcrew-simulate", words, {}).Wait(), 0) << fmt::format("{}", words);
}

}  // namespace pitcrew::test_support

// GPUs on the simulated driver, for this room's tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "node/mig/change.h"
#include "node/mig/node_gpus.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::node::mig {

class SimulatedMig : public ::testing::Test {
 protected:
  SimulatedMig();
  ~SimulatedMig() override;

  // A node with these GPUs and a driver; /sys and /proc of its own, without modules or PCI devices.
  void Start(const std::string& description);

  std::vector<Gpu> Read();
  // Applies a configuration with one entry for all GPUs.
  base::Result<Outcome> ApplyToAll(const ProfileCounts& counts, bool enabled = true);
  base::Result<Outcome> ApplyConfig(const NamedConfig& config);
  // By position: instances with their serial numbers, which a GPU that is not touched keeps.
  std::vector<std::vector<std::uint64_t>> Serials();
  // Counts of every GPU, "off" for one without MIG.
  std::vector<ProfileCounts> Counts();

  [[nodiscard]] std::filesystem::path journal() const { return root_ / "run/journal.json"; }

  const std::filesystem::path root_ = simulation::MakeTemporaryFolder();
  std::unique_ptr<simulation::TestNode> node_;
  std::unique_ptr<NodeGpus> gpus_;
  ChangeOptions options_;
};

}  // namespace pitcrew::node::mig

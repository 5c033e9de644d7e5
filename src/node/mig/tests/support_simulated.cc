#include "support_simulated.h"

#include <fstream>

#include "node/mig/plan.h"
#include "tests/support/folders.h"

namespace pitcrew::node::mig {

namespace fs = std::filesystem;

SimulatedMig::SimulatedMig() { options_.journal = journal(); }
SimulatedMig::~SimulatedMig() {
  gpus_.reset();
  fs::remove_all(root_);
}

void SimulatedMig::Start(const std::string& description) {
  gpus_.reset();
  fs::create_directories(root_ / "usr/lib64");
  fs::create_directories(root_ / "proc");
  std::ofstream(root_ / "proc/modules") << "";
  fs::copy_file(test_support::BuildFolder() / "lib/libnvidia-ml.so.1",
                root_ / "usr/lib64/libnvidia-ml.so.1", fs::copy_options::overwrite_existing);
  node_ = std::make_unique<simulation::TestNode>(description);
  node_->Use();
  gpus_ =
      std::make_unique<NodeGpus>(NodeSettings{.root = host::Root(root_), .driver_roots = {root_}});
}

std::vector<Gpu> SimulatedMig::Read() {
  auto gpus = gpus_->Read();
  EXPECT_TRUE(gpus) << gpus.error().ToString();
  return gpus.value_or(std::vector<Gpu>());
}

base::Result<Outcome> SimulatedMig::ApplyConfig(const NamedConfig& config) {
  const Planner planner = [&](const std::vector<Gpu>& gpus) {
    return PlanConfig(gpus, config, options_.mode_only);
  };
  return Apply(*gpus_, planner, options_);
}

base::Result<Outcome> SimulatedMig::ApplyToAll(const ProfileCounts& counts, bool enabled) {
  return ApplyConfig({{.mig_enabled = enabled, .mig_devices = counts}});
}

std::vector<std::vector<std::uint64_t>> SimulatedMig::Serials() {
  std::vector<std::vector<std::uint64_t>> serials;
  const auto state = node_->file().Snapshot();
  for (std::uint32_t i = 0; i < state->gpu_count; ++i) {
    auto& list = serials.emplace_back();
    for (const auto& instance : state->gpus[i].instances) {
      if (instance.serial == 0) continue;
      list.push_back(instance.serial);
      for (const auto& compute : instance.compute_instances) {
        if (compute.serial != 0) list.push_back(compute.serial);
      }
    }
  }
  return serials;
}

std::vector<ProfileCounts> SimulatedMig::Counts() {
  std::vector<ProfileCounts> counts;
  for (const Gpu& gpu : Read()) {
    if (!gpu.layout.is_present()) {
      counts.push_back({{"off", 1}});
      continue;
    }
    auto one = CountsOf(gpu, *gpu.layout.value());
    EXPECT_TRUE(one) << one.error().ToString();
    counts.push_back(one.value_or(ProfileCounts()));
  }
  return counts;
}

}  // namespace pitcrew::node::mig

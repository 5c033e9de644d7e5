// CDI specifications that follow the node, on simulated GPUs.
#include <gtest/gtest.h>

#include "base/file.h"
#include "io/file_watcher.h"
#include "node/toolkit/follow_node.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/file_opens.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::toolkit {
namespace {

// The MIG manager has told of a new geometry, and NVML does not answer in that moment.
TEST(FollowNode, ADriverThatDoesNotAnswerIsAskedAgain) {
  const test_support::SimulatedNode node(
      "gpus: [{profile: H100-80, mig: {enabled: true, devices: {1g.10gb: 1}}}]");
  node.InstallDriver();
  const auto part = [&] {
    const auto library = nvml::Library::Open({node.driver_root()});
    EXPECT_TRUE(library) << library.error().ToString();
    return (*library)->ReadInventory()->devices.at(0).mig_devices.at(0).uuid;
  }();
  Options options;
  options.driver_root = node.driver_root();
  options.driver_root_container = node.driver_root();
  options.cdi_folder = node.cdi_folder();
  options.validations = node.folder().path() / "validations";
  std::filesystem::create_directories(options.validations);
  std::filesystem::create_directories(options.cdi_folder);
  const auto file = options.cdi_folder / "runtime.nvidia.com-gpu.yaml";
  const auto names_part = [&]() -> base::Result<bool> {
    return base::ReadFile(file).value_or("").find(part) != std::string::npos;
  };
  test_support::DaemonThread follower([&](const io::StopToken& stop) -> base::Status {
    FollowNode(options, stop);
    return {};
  });
  ASSERT_TRUE(io::WaitForFiles({options.cdi_folder}, names_part, {})) << "at its start";

  const auto state = node.driver_root() / "run/nvidia/simulation/state";
  const auto away = node.folder().path() / "state-on-its-way";
  std::filesystem::rename(state, away);
  std::filesystem::remove(file);
  ASSERT_TRUE(validations::AnnounceMigChange(validations::StatusFolder(options.validations), {}));
  // Each try looks at the announcement first.
  const test_support::FileOpens tries(options.validations / validations::kMigChange);
  ASSERT_TRUE(tries.Wait(2)) << "tried once at most";
  std::filesystem::rename(away, state);
  EXPECT_TRUE(io::WaitForFiles({options.cdi_folder}, names_part, {}));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

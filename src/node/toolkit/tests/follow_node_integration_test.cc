// CDI specifications that follow the node, on simulated GPUs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "cdi/format.h"
#include "cdi/registry.h"
#include "host/device_node.h"
#include "io/file_watcher.h"
#include "node/toolkit/cdi_specs.h"
#include "node/toolkit/follow_node.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "simulation/sysfs/uevents.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/file_opens.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::toolkit {
namespace {

// A node with two GPUs whose /proc/devices the test writes.
class NodeWithMajors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "device nodes need root";
    node_.InstallDriver();
    options_.driver_root = node_.driver_root();
    options_.driver_root_container = node_.driver_root();
    options_.dev_root_container = node_.driver_root();
    options_.cdi_folder = node_.cdi_folder();
    options_.validations = node_.folder().path() / "validations";
    options_.proc = node_.folder().path() / "proc";
    std::filesystem::create_directories(options_.validations);
    std::filesystem::create_directories(options_.cdi_folder);
  }
  void List(const std::string& majors) const {
    ASSERT_TRUE(
        base::WriteFileAtomically(options_.proc / "devices", "Character devices:\n" + majors));
  }
  // The major that containers get for nvidia-uvm; 0: they do not get it.
  [[nodiscard]] std::int64_t UvmMajor() const {
    const auto text = base::ReadFile(options_.cdi_folder / "runtime.nvidia.com-gpu.yaml");
    const auto spec = cdi::ParseSpec(text.value_or(""), "the runtime's");
    if (!spec) return -1;
    const auto node =
        std::ranges::find(spec->edits.device_nodes, "/dev/nvidia-uvm", &cdi::DeviceNode::path);
    return node == spec->edits.device_nodes.end() ? 0 : node->major;
  }

  const test_support::SimulatedNode node_{"gpus: [{profile: H100-80, count: 2}]"};
  Options options_;
};

// The only news is the kernel's word that a module is there.
TEST_F(NodeWithMajors, ADriverThatIsLoadedAnewHasItsNewMajorInTheSpecification) {
  List("195 nvidia\n498 nvidia-uvm\n");
  ASSERT_TRUE(CreateControlNodes(options_));
  const auto has = [&](std::int64_t major) {
    return [this, major]() -> base::Result<bool> { return UvmMajor() == major; };
  };
  test_support::DaemonThread follower([&](const io::StopToken& stop) -> base::Status {
    FollowNode(options_, stop);
    return {};
  });
  ASSERT_TRUE(io::WaitForFiles({options_.cdi_folder}, has(498), {})) << "at its start";
  List("195 nvidia\n499 nvidia-uvm\n");
  ASSERT_TRUE(simulation::sysfs::UeventSender(true).Send(
      {.action = "add", .device_path = "/module/nvidia_uvm", .fields = {{"SUBSYSTEM", "module"}}}))
      << std::strerror(errno);
  EXPECT_TRUE(io::WaitForFiles({options_.cdi_folder}, has(499), {}));
}

TEST_F(NodeWithMajors, AControlNodeThatIsNotThereIsToldUntilSomebodyMakesIt) {
  List("195 nvidia\n498 nvidia-uvm\n");
  options_.create_control_nodes = false;
  const auto uvm = node_.driver_root() / "dev/nvidia-uvm";
  std::filesystem::remove(uvm);
  const auto tools = node_.driver_root() / "dev/nvidia-uvm-tools";
  ASSERT_TRUE(host::EnsureCharacterDevice(tools, {498, 1}));
  const auto written = WriteCdiSpecs(options_);
  ASSERT_TRUE(written) << written.error().message;
  ASSERT_EQ(written->size(), 1U);
  EXPECT_EQ(written->front().reason, "ControlNodeMissing");
  EXPECT_NE(written->front().message.find("/dev/nvidia-uvm "), std::string::npos);
  EXPECT_EQ(UvmMajor(), 0);
  test_support::DaemonThread follower([&](const io::StopToken& stop) -> base::Status {
    FollowNode(options_, stop);
    return {};
  });
  ASSERT_TRUE(host::EnsureCharacterDevice(uvm, {498, 0}));
  EXPECT_TRUE(io::WaitForFiles({options_.cdi_folder},
                               [&]() -> base::Result<bool> { return UvmMajor() == 498; }, {}));
}

// As after the node's start: what divides the GPUs is a container that asks for all of them.
TEST(CdiSpecsOfANode, WhereNoGpuIsDividedYetAllAndEachCanBeAskedFor) {
  const test_support::SimulatedNode node(
      "gpus: [{profile: H100-80, count: 2, mig: {enabled: true}}]");
  node.InstallDriver();
  Options options;
  options.driver_root = node.driver_root();
  options.driver_root_container = node.driver_root();
  options.cdi_folder = node.cdi_folder();
  const auto written = WriteCdiSpecs(options);
  ASSERT_TRUE(written) << written.error().ToString();
  EXPECT_TRUE(written->empty()) << written->front().ToString();
  const auto registry = cdi::Registry::Load({options.cdi_folder});
  EXPECT_TRUE(registry.errors().empty());
  const auto nodes = [&](const std::string& name) {
    const std::vector<std::string> names = {"runtime.nvidia.com/gpu=" + name};
    const auto edits = registry.Resolve(names);
    EXPECT_TRUE(edits) << edits.error().ToString();
    return edits ? edits->device_nodes.size() : 0;
  };
  EXPECT_GE(nodes("all"), 3U) << "control nodes";
  EXPECT_EQ(nodes("0"), nodes("all") + 1);
  EXPECT_EQ(nodes("1"), nodes("all") + 1);
}

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

// Processors: topology from a tree of files, the model from the processor that runs the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/strings.h"
#include "node/nfd/sources.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::nfd {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class Topology : public ::testing::Test {
 protected:
  void AddProcessor(int number, const std::string& siblings, int socket) {
    const auto folder = "sys/bus/cpu/devices/cpu" + std::to_string(number) + "/topology/";
    root_.Write(folder + "thread_siblings_list", siblings + "\n");
    root_.Write(folder + "physical_package_id", std::to_string(socket) + "\n");
  }
  [[nodiscard]] base::Result<Discovery> Discover() const {
    return DiscoverCpu(HostPaths::Below(root_.path()));
  }
  test_support::TemporaryFolder root_;
};

TEST_F(Topology, OneThreadACoreIsNoMultithreading) {  // node-feature-discovery.md 6.1
  AddProcessor(0, "0", 0);
  AddProcessor(1, "1", 1);
  AddProcessor(2, "2", 1);
  const auto found = Discover();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, Contains(Pair("hardware_multithreading", "false")));
  EXPECT_EQ(found->features.attributes.at("cpu.topology"),
            (Attributes{{"hardware_multithreading", "false"}, {"socket_count", "2"}}));
}

TEST_F(Topology, ThreadsThatShareACoreAreInAListOrARange) {
  AddProcessor(0, "0", 0);
  AddProcessor(1, "1-2", 0);
  auto found = Discover();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, Contains(Pair("hardware_multithreading", "true")));
  EXPECT_THAT(found->features.attributes.at("cpu.topology"), Contains(Pair("socket_count", "1")));
  AddProcessor(1, "1,9", 0);
  EXPECT_THAT(Discover()->labels, Contains(Pair("hardware_multithreading", "true")));
}

TEST_F(Topology, IsLeftOutWhileAProcessorGoesOffline) {
  AddProcessor(0, "0", 0);
  std::filesystem::create_directories(root_.path() / "sys/bus/cpu/devices/cpu1");
  const auto found = Discover();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->labels, Not(Contains(Key("hardware_multithreading"))));
  EXPECT_THAT(found->features.attributes, Not(Contains(Key("cpu.topology"))));
}

TEST_F(Topology, WhatCannotBeReadIsAnError) {
  root_.Write("sys/bus/cpu/devices/cpu0/topology/thread_siblings_list/a", "folder");
  EXPECT_FALSE(Discover());
}

#if defined(__x86_64__)

// The kernel reads the same registers.
TEST(Model, IsThatOfTheKernel) {  // node-feature-discovery.md 6.1
  std::map<std::string, std::string> kernel;
  for (const auto& line : base::Split(base::ReadFile("/proc/cpuinfo").value_or(""), '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) break;  // the next processor
    kernel.emplace(base::Trim(line.substr(0, colon)), base::Trim(line.substr(colon + 1)));
  }
  ASSERT_THAT(kernel, Contains(Key("cpu family")));
  const test_support::TemporaryFolder root;
  const auto found = DiscoverCpu(HostPaths::Below(root.path()));
  ASSERT_TRUE(found) << found.error().message;
  const auto& model = found->features.attributes.at("cpu.model");
  EXPECT_EQ(model.at("family"), kernel["cpu family"]);
  EXPECT_EQ(model.at("id"), kernel["model"]);
  const std::map<std::string, std::string> vendors = {{"GenuineIntel", "Intel"},
                                                      {"AuthenticAMD", "AMD"}};
  if (const auto vendor = vendors.find(kernel["vendor_id"]); vendor != vendors.end()) {
    EXPECT_EQ(model.at("vendor_id"), vendor->second);
  }
  const bool is_guest = (kernel["flags"] + " ").find(" hypervisor ") != std::string::npos;
  EXPECT_EQ(model.at("hypervisor") != "none", is_guest) << model.at("hypervisor");
  for (const auto& [key, value] : model) {
    EXPECT_THAT(found->labels, Contains(Pair("model." + key, value)));
    EXPECT_FALSE(value.empty()) << key;
  }
}

#endif

TEST(KernelVersion, SignsAtItsEdgesAreNoPartOfIt) {
  EXPECT_EQ(ParseKernelVersion("._-6.8.0-1_x-_.\n").at("full"), "6.8.0-1_x");
  EXPECT_EQ(ParseKernelVersion(" 6.8.0+7 ").at("full"), "6.8.0_7");
  EXPECT_EQ(ParseKernelVersion("").at("full"), "");
}

}  // namespace
}  // namespace pitcrew::node::nfd

// Which of the kernel's announcements make CDI specifications untrue.
#include "node/toolkit/follow_node.h"

#include <gtest/gtest.h>

namespace pitcrew::node::toolkit {
namespace {

host::Uevent Event(std::string path, std::map<std::string, std::string> fields) {
  return {.action = "add", .device_path = std::move(path), .fields = std::move(fields)};
}

TEST(ConcernsGpusTest, AreModulesOfTheDriverAndItsDevices) {
  EXPECT_TRUE(ConcernsGpus(Event("/module/nvidia", {{"SUBSYSTEM", "module"}})));
  EXPECT_TRUE(ConcernsGpus(Event("/module/nvidia_uvm", {{"SUBSYSTEM", "module"}})));
  EXPECT_TRUE(ConcernsGpus(
      Event("/devices/pci0000:00/0000:00:04.0", {{"SUBSYSTEM", "pci"}, {"PCI_ID", "10DE:2330"}})));
}

TEST(ConcernsGpusTest, OthersDoNot) {
  EXPECT_FALSE(ConcernsGpus(Event("/module/mlx5_core", {{"SUBSYSTEM", "module"}})));
  EXPECT_FALSE(ConcernsGpus(
      Event("/devices/pci0000:00/0000:00:05.0", {{"SUBSYSTEM", "pci"}, {"PCI_ID", "15B3:1019"}})));
  EXPECT_FALSE(ConcernsGpus(Event("/devices/pci0000:00/0000:00:05.0", {{"SUBSYSTEM", "pci"}})));
  EXPECT_FALSE(ConcernsGpus(
      Event("/devices/virtual/block/loop0", {{"SUBSYSTEM", "block"}, {"PCI_ID", "10DE:2330"}})));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

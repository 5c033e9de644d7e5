#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "node/validator/command.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

int Wait(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "wait");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return WaitCommand(static_cast<int>(argv.size()), argv.data());
}

// validator.md: a vGPU manager is ready in a container or on the host; each has a file of its own.
TEST(Wait, AllFilesOrAnyOfThem) {
  const test_support::TemporaryFolder folder;
  const std::string there = folder.path() / "vgpu-manager-ready";
  const std::string missing = folder.path() / "host-vgpu-manager-ready";
  std::ofstream(there).close();
  EXPECT_EQ(Wait({there}), 0);
  EXPECT_EQ(Wait({"--any", missing, there}), 0);
  EXPECT_EQ(Wait({"--timeout", "1ms", missing, there}), 1);
  EXPECT_EQ(Wait({"--timeout", "1ms", "--any", missing}), 1);
  EXPECT_EQ(Wait({"--any"}), 2);
}

}  // namespace
}  // namespace pitcrew::node::validator

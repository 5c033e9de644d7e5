// pitcrew-simulate as people and the local cluster call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "codec/json.h"
#include "simulation/state/discovery.h"
#include "simulation/testing/process.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kBuild = test_support::BuildFolder();

class Program : public ::testing::Test {
 protected:
  Program() : folder_(MakeTemporaryFolder()) {}
  ~Program() override { fs::remove_all(folder_); }

  Outcome Simulate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), (kBuild / "bin/pitcrew-simulate").string());
    return RunProgram(arguments, {{"NODE_NAME", "node-1"}});
  }
  std::string Describe(const std::string& text) {
    const auto path = folder_ / "gpus.yaml";
    std::ofstream(path) << text;
    return path.string();
  }
  Outcome Gpu(std::vector<std::string> words) {
    words.insert(words.begin(), "gpu");
    words.insert(words.end(), {"--state", state()});
    return Simulate(words);
  }
  [[nodiscard]] std::string state() const { return (folder_ / "state").string(); }
  codec::Json Show() {
    const auto outcome = Simulate({"state", "show", "--state", state()});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return codec::ParseJson(outcome.output).value_or(codec::Json());
  }
  void Create(const std::string& text) {
    const auto outcome =
        Simulate({"state", "create", "--description", Describe(text), "--state", state()});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
  }

  fs::path folder_;
};

// Malformed input ends with file, line, what is wrong, what would be right, and code 2.
TEST_F(Program, MalformedDescriptionIsExitCode2) {
  const auto file = Describe("gpus:\n  - profile: H100-80\n    count: lots\n");
  const auto outcome = Simulate({"pci-tree", "--description", file, "--into", folder_ / "pci"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, ::testing::AllOf(HasSubstr(file + ":3:12"), HasSubstr("\"lots\""),
                                               HasSubstr("from 1 to 16")));
  EXPECT_FALSE(fs::exists(folder_ / "pci"));
}

TEST_F(Program, UsageErrorsAreExitCode2) {
  EXPECT_EQ(Simulate({}).status, 2);
  EXPECT_EQ(Simulate({"fly"}).status, 2);
  EXPECT_EQ(Simulate({"gpu", "load", "0", "101"}).status, 2);
  EXPECT_EQ(Simulate({"--help"}).status, 0);
}

TEST_F(Program, MissingFilesAreExitCode1) {
  EXPECT_EQ(Simulate({"pci-tree", "--description", "/nonexistent", "--into", "/tmp/x"}).status, 1);
  EXPECT_EQ(Simulate({"gpu", "list", "--state", "/nonexistent"}).status, 1);
}

TEST_F(Program, PciTree) {
  const auto outcome =
      Simulate({"pci-tree", "--description", Describe("gpus: [{profile: L4, count: 2}]"), "--into",
                folder_ / "pci"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(fs::exists(folder_ / "pci/0000:43:00.0/vendor"));
}

// node-feature-discovery.md section 6.10: a file of the source "local".
TEST_F(Program, HardwareIsThereUntilItEnds) {
  const auto root = folder_ / "host";
  const auto description = root / "etc/pitcrew/simulated-gpus.yaml";
  const auto features = root / "features.d/simulated-gpus";
  const std::string text = "gpus: [{profile: L4, count: 2}]\n";
  EXPECT_EQ(Simulate({"hardware", "--check", "--host-root", root}).status, 1);
  {
    Process hardware({(kBuild / "bin/pitcrew-simulate").string(), "hardware", "--description",
                      Describe(text), "--host-root", root, "--features", "/features.d", "--feature",
                      "pci-10de.present"});
    EXPECT_THAT(hardware.ReadLine(), HasSubstr("simulated GPUs"));
    EXPECT_EQ(base::ReadFile(description).value_or(""), text);
    EXPECT_EQ(base::ReadFile(features).value_or(""), "pci-10de.present=true\n");
    EXPECT_EQ(Simulate({"hardware", "--check", "--host-root", root}).status, 0);
    hardware.Signal(SIGTERM);
    EXPECT_EQ(hardware.Wait().status, 0);
  }
  EXPECT_FALSE(fs::exists(description));
  EXPECT_FALSE(fs::exists(features));
}

TEST_F(Program, MalformedHardwareIsNotProvided) {
  const auto root = folder_ / "host";
  const auto outcome = Simulate({"hardware", "--description", Describe("gpus: [{profile: X}]\n"),
                                 "--host-root", root, "--features", "/features.d"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("\"X\""));
  EXPECT_FALSE(fs::exists(root));
}

TEST_F(Program, AHostDriverWorksInItsRoot) {
  const auto root = folder_ / "root";
  fs::create_directories(root / "sys/bus/pci/devices");
  const auto file = Describe("gpus: [{profile: L4, count: 2}]");
  ASSERT_EQ(
      Simulate({"pci-tree", "--description", file, "--into", root / "sys/bus/pci/devices"}).status,
      0);
  const auto outcome = Simulate(
      {"driver-install", "--root", root, "--version", "570.124.06", "--description", file});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(fs::canonical(root / "sys/bus/pci/devices/0000:1b:00.0/driver").filename(), "nvidia");
  // The state is found through the link beside the library, and the nodes in the root's own /dev.
  const auto listed =
      RunProgram({(root / "usr/bin/nvidia-smi").string(), "--query-gpu=driver_version,name",
                  "--format=csv,noheader"},
                 {{"LD_LIBRARY_PATH", (root / "usr/lib/x86_64-linux-gnu").string()}});
  EXPECT_EQ(listed.output, "570.124.06, NVIDIA L4\n570.124.06, NVIDIA L4\n") << listed.errors;
  // Once more is harmless.
  EXPECT_EQ(
      Simulate({"driver-install", "--root", root, "--version", "570.124.06", "--description", file})
          .status,
      0);
}

TEST_F(Program, IncidentsOnDemand) {
  Create("gpus: [{profile: H100-80, count: 2}]");
  EXPECT_EQ(Gpu({"lose", "1"}).status, 0);
  EXPECT_EQ(Gpu({"unknown-error", "0"}).status, 0);
  EXPECT_EQ(Gpu({"slow", "0", "25"}).status, 0);
  EXPECT_EQ(Gpu({"xid", "0", "79"}).status, 0);
  EXPECT_EQ(Gpu({"ecc", "0", "--uncorrected", "--count", "2"}).status, 0);
  EXPECT_EQ(Gpu({"load", "all", "40"}).status, 0);
  auto node = Show();
  EXPECT_EQ(node["gpus"][1]["lost"], true);
  EXPECT_EQ(node["gpus"][0]["unknownError"], true);
  EXPECT_EQ(node["gpus"][0]["slowMilliseconds"], 25);
  EXPECT_EQ(node["gpus"][1]["load"], 40);
  EXPECT_EQ(Gpu({"restore", "all"}).status, 0);
  node = Show();
  EXPECT_EQ(node["gpus"][1]["lost"], false);
  EXPECT_EQ(node["gpus"][0]["unknownError"], false);
  EXPECT_THAT(Gpu({"list"}).output, HasSubstr("NVIDIA H100 80GB HBM3"));
}

TEST_F(Program, FaultsThatOnlyAResetEnds) {
  Create("gpus: [{profile: H100-80, count: 2}]");
  EXPECT_EQ(Gpu({"xid", "0", "95"}).status, 0);
  EXPECT_EQ(Gpu({"xid", "1", "95", "--recovery", "none"}).status, 0);
  EXPECT_EQ(Gpu({"rows", "0", "--uncorrectable", "2", "--pending"}).status, 0);
  EXPECT_EQ(Gpu({"throttle", "0", "hw-thermal", "sw-power-cap"}).status, 0);
  EXPECT_EQ(Gpu({"nvlink", "0", "3", "--replay", "7", "--down"}).status, 0);
  EXPECT_EQ(Gpu({"hang", "1"}).status, 0);
  auto node = Show();
  EXPECT_EQ(node["gpus"][0]["recoveryAction"], 1);
  EXPECT_EQ(node["gpus"][1]["recoveryAction"], 0);
  EXPECT_EQ(node["gpus"][0]["remappedRows"]["pending"], true);
  EXPECT_EQ(node["gpus"][0]["clocksEventReasons"], 0x45);
  EXPECT_EQ(node["gpus"][0]["linksDown"], 8);
  EXPECT_EQ(node["gpus"][1]["slowMilliseconds"], "hangs");
  EXPECT_THAT(Gpu({"list"}).output,
              ::testing::AllOf(HasSubstr("remap-pending"), HasSubstr("hangs")));
  EXPECT_EQ(Gpu({"reset", "0"}).status, 0);
  EXPECT_EQ(Gpu({"restore", "1"}).status, 0);
  EXPECT_EQ(Gpu({"throttle", "0", "none"}).status, 0);
  node = Show();
  EXPECT_EQ(node["gpus"][0]["recoveryAction"], 0);
  EXPECT_EQ(node["gpus"][0]["remappedRows"]["pending"], false);
  EXPECT_EQ(node["gpus"][0]["remappedRows"]["uncorrectable"], 2);
  EXPECT_EQ(node["gpus"][0]["linksDown"], 0);
  EXPECT_EQ(node["gpus"][0]["resets"], 1);
  EXPECT_EQ(node["gpus"][1]["slowMilliseconds"], 0);
}

TEST_F(Program, FaultsThatCannotBeAreRefused) {
  Create("gpus: [{profile: L4}]");
  EXPECT_EQ(Gpu({"nvlink", "0", "0", "--down"}).status, 2) << "an L4 has no links";
  EXPECT_EQ(Gpu({"throttle", "0", "laziness"}).status, 2);
  EXPECT_EQ(Gpu({"xid", "0", "95", "--recovery", "prayer"}).status, 2);
  EXPECT_EQ(Gpu({"gpm", "0", "999", "1"}).status, 2);
  EXPECT_EQ(Gpu({"gpm", "0", "1", "50"}).status, 0);
  EXPECT_EQ(Gpu({"gpm", "0", "1", "--clear"}).status, 0);
}

TEST_F(Program, ProcessesAndMigMode) {
  Create("gpus: [{profile: A100-40}]");
  EXPECT_EQ(Gpu({"process", "0", "4711", "--name", "job"}).status, 0);
  EXPECT_THAT(Gpu({"mig", "0", "on"}).output, HasSubstr("pending"));
  EXPECT_EQ(Gpu({"reset", "0"}).status, 1) << "in use";
  EXPECT_EQ(Show()["gpus"][0]["mig"]["pending"], true);
  EXPECT_EQ(Show()["gpus"][0]["mig"]["current"], false);
  EXPECT_EQ(Gpu({"process", "0", "4711", "--remove"}).status, 0);
  EXPECT_EQ(Gpu({"reset", "0"}).status, 0);
  EXPECT_EQ(Show()["gpus"][0]["mig"]["current"], true);
}

TEST_F(Program, AGpuThatIsNotThereIsRefused) {
  Create("gpus: [{profile: T4}]");
  const auto outcome = Gpu({"lose", "3"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("\"3\""));
}

}  // namespace
}  // namespace pitcrew::simulation

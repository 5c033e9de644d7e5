// The Go libraries that upstream's components use (go-nvml, go-nvlib), over the simulated library:
// the program in go-nvml/ is built once and run here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>

#include "codec/json.h"
#include "simulation/state/discovery.h"
#include "simulation/state/incidents.h"
#include "simulation/testing/process.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

// The Go toolchain: on PATH, in Pitcrew's cache, or where Go's own installer puts it.
std::string FindGo() {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, colon)) / "go";
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  fs::path cache;
  if (const char* own = std::getenv("PITCREW_CACHE")) {
    cache = own;
  } else if (const char* xdg = std::getenv("XDG_CACHE_HOME")) {
    cache = fs::path(xdg) / "pitcrew";
  } else if (const char* home = std::getenv("HOME")) {
    cache = fs::path(home) / ".cache/pitcrew";
  }
  for (const fs::path& candidate : {cache / "go/go/bin/go", fs::path("/usr/local/go/bin/go")}) {
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

class GoNvml : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string go = FindGo();
    ASSERT_FALSE(go.empty())
        << "this test needs a Go toolchain (1.25 or newer): none is on PATH and "
           "none in $PITCREW_CACHE/go/go/bin; `make setup` installs one";
    const fs::path program = test_support::BuildFolder() / "bin/go-nvml";
    // Built beside and renamed: another test may be running the program.
    const std::string fresh = program.string() + "." + std::to_string(::getpid());
    const auto built =
        RunProgram({go, "build", "-buildvcs=false", "-o", fresh, "."},
                   {{"CGO_ENABLED", "1"}, {"CGO_CFLAGS", "-Wno-deprecated-declarations"}},
                   test_support::SourceFolder() / "simulation/tests/go-nvml");
    ASSERT_EQ(built.status, 0) << built.errors;
    fs::rename(fresh, program);
    program_ = program;
  }
  void SetUp() override {
    if (program_.empty()) GTEST_FAIL() << "the Go program was not built";
  }

  void Start(const std::string& description) {
    node_ = std::make_unique<TestNode>(description);
    node_->Use();
    environment_ = node_->Environment();
    environment_["LD_LIBRARY_PATH"] = test_support::BuildFolder().string() + "/lib";
  }
  Outcome Go(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program_.string());
    return RunProgram(arguments, environment_);
  }
  codec::Json Inventory() {
    const auto outcome = Go({"inventory"});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return codec::ParseJson(outcome.output).value_or(codec::Json());
  }
  // Profile names of the GPU's MIG devices.
  std::multiset<std::string> MigProfiles(std::size_t gpu) {
    std::multiset<std::string> names;
    const auto inventory = Inventory();
    for (const auto& device : inventory["gpus"][gpu]["migDevices"]) {
      names.insert(device["profile"].get<std::string>());
    }
    return names;
  }

  static fs::path program_;
  std::unique_ptr<TestNode> node_;
  std::map<std::string, std::string> environment_;
};
fs::path GoNvml::program_;

TEST_F(GoNvml, SeesTheNode) {
  Start("driver: {version: 570.124.06}\ngpus: [{profile: H100-80, count: 2}, {profile: T4}]");
  const auto inventory = Inventory();
  EXPECT_EQ(inventory["driverVersion"], "570.124.06");
  EXPECT_EQ(inventory["nvmlVersion"], "12.570.124.06");
  EXPECT_EQ(inventory["cudaVersion"], 12080);
  ASSERT_EQ(inventory["gpus"].size(), 3u);
  const auto& first = inventory["gpus"][0];
  EXPECT_EQ(first["name"], "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(first["architecture"], "Hopper");
  EXPECT_EQ(first["computeCapability"], "9.0");
  EXPECT_EQ(first["busId"], "0000:1b:00.0");
  EXPECT_EQ(first["migCapable"], true);
  EXPECT_EQ(first["uuid"], node_->file().Snapshot()->gpus[0].uuid);
  const auto& last = inventory["gpus"][2];
  EXPECT_EQ(last["minor"], 2);
  EXPECT_EQ(last["migCapable"], false);
  EXPECT_EQ(last["architecture"], "Turing");
}

// At least 5 profiles; section 12.1: their names.
TEST_F(GoNvml, ListsTheProfiles) {
  RecordProperty("holds", "mig-manager.md #29");
  Start("gpus: [{profile: H200}]");
  const auto inventory = Inventory();
  std::set<std::string> whole;
  for (const auto& name : inventory["gpus"][0]["profiles"]) {
    const auto text = name.get<std::string>();
    if (text.find("c.") == std::string::npos) whole.insert(text);
  }
  EXPECT_EQ(whole, (std::set<std::string>{"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb",
                                          "4g.71gb", "7g.141gb"}));
}

// Set then get returns the same configuration; clear leaves none.
TEST_F(GoNvml, CreatesAndDestroysMigDevices) {
  RecordProperty("holds", "mig-manager.md #30");
  Start("gpus: [{profile: A100-40}, {profile: A30}]");
  const auto enabled = Go({"mode", "0", "1"});
  EXPECT_EQ(enabled.output, "{\"activation\": 0, \"current\": 1, \"pending\": 1}\n");
  const auto created = Go({"create", "0", "3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"});
  ASSERT_EQ(created.status, 0) << created.errors;
  EXPECT_EQ(MigProfiles(0), (std::multiset<std::string>{"3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"}));
  const auto full = Go({"create", "0", "1g.5gb"});
  EXPECT_NE(full.status, 0);
  EXPECT_NE(full.errors.find("Insufficient Resources"), std::string::npos) << full.errors;
  ASSERT_EQ(Go({"clear", "0"}).status, 0);
  EXPECT_TRUE(MigProfiles(0).empty());
  ASSERT_EQ(Go({"mode", "1", "1"}).status, 0);
  ASSERT_EQ(Go({"create", "1", "1g.6gb+me", "1g.6gb", "2g.12gb"}).status, 0);
  EXPECT_EQ(MigProfiles(1), (std::multiset<std::string>{"1g.6gb+me", "1g.6gb", "2g.12gb"}));
}

TEST_F(GoNvml, MigDevicesKnowTheirParent) {
  Start("gpus: [{profile: H100-80, mig: {enabled: true, devices: {1g.10gb: 7}}}]");
  const auto inventory = Inventory();
  const auto& gpu = inventory["gpus"][0];
  ASSERT_EQ(gpu["migDevices"].size(), 7u);
  std::set<std::string> uuids;
  for (const auto& device : gpu["migDevices"]) {
    EXPECT_EQ(device["parent"], gpu["uuid"]);
    EXPECT_EQ(device["name"], "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    EXPECT_EQ(device["attributes"], gpu["migDevices"][0]["attributes"]);
    uuids.insert(device["uuid"].get<std::string>());
  }
  EXPECT_EQ(uuids.size(), 7u);
}

TEST_F(GoNvml, WaitsForAnXidFromAnotherProcess) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  Process watcher({program_.string(), "watch", "60000"}, environment_);
  ASSERT_EQ(watcher.ReadLine(), "watching");
  ASSERT_TRUE(node_->file().Update([](NodeState& state) {
    AddEvent(state, 1, 8, 62);
    return true;
  }));
  const auto outcome = watcher.Wait();
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const auto event = codec::ParseJson(outcome.output).value_or(codec::Json());
  EXPECT_EQ(event["uuid"], node_->file().Snapshot()->gpus[1].uuid);
  EXPECT_EQ(event["xid"], 62);
  EXPECT_EQ(event["gi"], 0xffffffffu);
}

TEST_F(GoNvml, SaysWhatIsWrong) {
  Start("gpus: [{profile: T4}]");
  ASSERT_TRUE(node_->file().Update([](NodeState& state) {
    LoseGpu(state, 0);
    return true;
  }));
  const auto lost = Go({"inventory"});
  EXPECT_NE(lost.errors.find("GPU is lost"), std::string::npos) << lost.errors;
  environment_[kStateVariable] = "/nonexistent";
  const auto unloaded = Go({"inventory"});
  EXPECT_NE(unloaded.errors.find("Driver Not Loaded"), std::string::npos) << unloaded.errors;
}

}  // namespace
}  // namespace pitcrew::simulation

// The program on simulated GPUs, writing a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "base/strings.h"
#include "io/file_watcher.h"
#include "tests/support/eventually.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::feature_discovery {
namespace {

using test_support::Program;
using test_support::SimulatedNode;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

using Lines = std::map<std::string, std::string>;

class FeatureDiscoveryProgram : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path output() const {
    return node_.folder().path() / "features.d" / "gfd";
  }
  [[nodiscard]] std::vector<std::string> Environment(std::vector<std::string> more = {}) const {
    more.push_back("USE_NODE_FEATURE_API=false");
    more.push_back("GFD_OUTPUT_FILE=" + output().string());
    more.push_back("DRIVER_ROOT_CTR_PATH=" + node_.driver_root().string());
    more.push_back("CONFIG_FILE=" + config_.string());
    return more;
  }
  [[nodiscard]] Lines Read() const {
    Lines lines;
    for (const auto& line : base::Split(base::ReadFile(output()).value_or(""), '\n')) {
      const auto equals = line.find('=');
      if (equals != std::string::npos) lines[line.substr(0, equals)] = line.substr(equals + 1);
    }
    return lines;
  }
  // Waits until the file's lines satisfy `done`.
  void WaitFor(const std::function<bool(const Lines&)>& done) const {
    const auto waited = io::WaitForFiles(
        {output().parent_path()}, [&]() -> base::Result<bool> { return done(Read()); },
        io::StopToken());
    ASSERT_TRUE(waited.has_value()) << waited.error().ToString();
  }
  void WaitForProduct(const std::string& product) const {
    WaitFor([&](const Lines& lines) {
      const auto found = lines.find("nvidia.com/gpu.product");
      return found != lines.end() && found->second == product;
    });
  }

  SimulatedNode node_{"gpus: [{profile: H100-80, count: 8}]"};
  std::filesystem::path config_ = node_.folder().Write("config.yaml", "version: v1\n");
};

TEST_F(FeatureDiscoveryProgram, OneShotWritesEveryLabelAndKeepsTheFile) {
  RecordProperty("holds", "feature-discovery.md #11, #13");
  node_.InstallDriver();
  EXPECT_EQ(Program("feature_discovery_program", {"--oneshot"}, Environment()).Wait(), 0);
  const auto lines = Read();
  EXPECT_THAT(lines, Contains(Pair("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")));
  EXPECT_THAT(lines, Contains(Pair("nvidia.com/gpu.count", "8")));
  EXPECT_THAT(lines, Contains(Pair("nvidia.com/gpu.family", "hopper")));
  EXPECT_THAT(lines, Contains(Pair("nvidia.com/mig.capable", "true")));
  EXPECT_THAT(lines, Contains(Pair("nvidia.com/mps.capable", "false")));
  EXPECT_THAT(lines, Contains(Key("nvidia.com/gfd.timestamp")));
  EXPECT_THAT(lines, Contains(Key("nvidia.com/cuda.driver-version.full")));
  EXPECT_THAT(lines, Contains(Key("nvidia.com/cuda.runtime-version.full")));
  EXPECT_EQ(
      Program("feature_discovery_program", {"-oneshot", "-no-timestamp"}, Environment()).Wait(), 0);
  EXPECT_THAT(Read(), Not(Contains(Key("nvidia.com/gfd.timestamp"))));
}

TEST_F(FeatureDiscoveryProgram, TheFileGoesWithTheDaemon) {  // section 2 number 5
  node_.InstallDriver();
  Program program("feature_discovery_program", {}, Environment());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(output()));
}

TEST_F(FeatureDiscoveryProgram, TheFileStaysWhenItIsWrittenOnce) {
  RecordProperty("holds", "feature-discovery.md #12");
  node_.InstallDriver();
  Program program("feature_discovery_program", {}, Environment({"GFD_SLEEP_INTERVAL=infinite"}));
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(output()));
}

TEST_F(FeatureDiscoveryProgram, ReadsItsConfigurationAgainOnHangUp) {
  RecordProperty("holds", "feature-discovery.md #24");
  node_.InstallDriver();
  Program program("feature_discovery_program", {}, Environment());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  node_.folder().Write("config.yaml",
                       "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}");
  program.Signal(SIGHUP);
  WaitForProduct("NVIDIA-H100-80GB-HBM3-SHARED");
  EXPECT_EQ(Read()["nvidia.com/gpu.replicas"], "4");
}

TEST_F(FeatureDiscoveryProgram, KeepsTheLastGoodConfigurationAtHangUp) {
  node_.InstallDriver();
  Program program("feature_discovery_program", {}, Environment());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  node_.folder().Write("config.yaml", "version: v2\n");
  program.Signal(SIGHUP);
  // The file that it writes again shows that it goes on.
  std::filesystem::remove(output());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  node_.folder().Write("config.yaml",
                       "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}");
  program.Signal(SIGHUP);
  WaitForProduct("NVIDIA-H100-80GB-HBM3-SHARED");
}

// A refused configuration is told on the node, not only in a log.
TEST_F(FeatureDiscoveryProgram, TellsTheNodeOfARefusedConfiguration) {
  const auto client = testing::ApiServer::Shared().MakeClient();
  const std::string name = "program-" + std::to_string(::getpid());
  node_.InstallDriver();
  const Program program(
      "feature_discovery_program", {},
      Environment({"NODE_NAME=" + name,
                   "KUBECONFIG=" + testing::ApiServer::Shared().kubeconfig().string()}));
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  node_.folder().Write("config.yaml", "version: v2\n");
  program.Signal(SIGHUP);
  EXPECT_TRUE(test_support::Eventually([&] {
    const auto events = client->List(kube::kEvents, "default",
                                     {.field_selector = "involvedObject.name=" + name +
                                                        ",reason=FeatureDiscoveryConfigRefused"});
    EXPECT_TRUE(events) << events.error().ToString();
    return !events || !events->items.empty();
  }));
}

TEST_F(FeatureDiscoveryProgram, CountsAGpuThatIsLostAtTheStart) {
  node_.InstallDriver();
  node_.Gpu({"lose", "3"});
  EXPECT_EQ(Program("feature_discovery_program", {"--oneshot"}, Environment()).Wait(), 0);
  EXPECT_EQ(Read()["nvidia.com/gpu.count"], "8");
}

TEST_F(FeatureDiscoveryProgram, PutsBackAFileThatVanishes) {
  node_.InstallDriver();
  const Program program("feature_discovery_program", {}, Environment());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  std::filesystem::remove(output());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
}

TEST_F(FeatureDiscoveryProgram, AFailedLookTakesNoLabelAway) {
  node_.InstallDriver();
  const Program program("feature_discovery_program", {}, Environment({"GFD_SLEEP_INTERVAL=10ms"}));
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  node_.Gpu({"lose", "3"});
  // With the file gone the next look that succeeds writes it: until then there are no labels that
  // would be wrong, and then there are all of them.
  std::filesystem::remove(output());
  node_.Gpu({"restore", "3"});
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(Read()["nvidia.com/gpu.count"], "8");
}

// Of GPUs that are lost at the start there is no more to say; later their labels are known.
TEST_F(FeatureDiscoveryProgram, GpusThatAreAllLostLaterKeepTheirLabels) {
  node_.InstallDriver();
  const Program program("feature_discovery_program", {}, Environment({"GFD_SLEEP_INTERVAL=10ms"}));
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  auto watcher = *io::FileWatcher::Create();
  ASSERT_TRUE(watcher.Watch(output().parent_path()));
  for (int gpu = 0; gpu < 8; ++gpu) node_.Gpu({"lose", std::to_string(gpu)});
  for (int gpu = 0; gpu < 8; ++gpu) node_.Gpu({"restore", std::to_string(gpu)});
  // What is written again shows that it goes on.
  std::filesystem::remove(output());
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
  const auto changes = *watcher.Take();
  EXPECT_EQ(std::ranges::count_if(changes,
                                  [&](const io::FileChange& change) {
                                    return change.path() == output() &&
                                           change.kind == io::FileChange::Kind::kAppeared;
                                  }),
            1)
      << "nothing was written before";
}

TEST_F(FeatureDiscoveryProgram, WithoutADriver) {  // section 8
  EXPECT_EQ(Program("feature_discovery_program", {"--oneshot"}, Environment()).Wait(), 1);
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_EQ(Program("feature_discovery_program", {"--oneshot", "--fail-on-init-error=false"},
                    Environment())
                .Wait(),
            0);
  EXPECT_THAT(Read(), Not(Contains(Key("nvidia.com/gpu.count"))));
  EXPECT_THAT(Read(), Contains(Key("nvidia.com/gfd.timestamp")));
}

TEST_F(FeatureDiscoveryProgram, EndsWithoutADriverWhereThatIsAFailure) {
  RecordProperty("holds", "feature-discovery.md #15");
  const auto ends = [&](const char* fail, const char* strategy) {
    return Program("feature_discovery_program",
                   {"--oneshot", std::string("--fail-on-init-error=") + fail,
                    std::string("--mig-strategy=") + strategy},
                   Environment())
        .Wait();
  };
  EXPECT_EQ(ends("true", "none"), 1);
  EXPECT_EQ(ends("false", "none"), 0);
  EXPECT_EQ(ends("true", "bogus"), 1);
  // Upstream looks at the strategy only where there are devices (docs/differences.md).
  EXPECT_EQ(ends("false", "bogus"), 1);
  node_.InstallDriver();
  for (const char* fail : {"true", "false"}) {
    EXPECT_EQ(ends(fail, "none"), 0) << fail;
    EXPECT_EQ(ends(fail, "bogus"), 1) << fail;
  }
}

TEST_F(FeatureDiscoveryProgram, PicksUpADriverThatComesLater) {  // section 19 number 1
  std::filesystem::create_directories(node_.driver_root() / "dev");
  std::filesystem::create_directories(node_.driver_root() / "usr/lib/x86_64-linux-gnu");
  const Program program("feature_discovery_program", {"--fail-on-init-error=false"}, Environment());
  WaitFor([](const Lines& lines) { return lines.contains("nvidia.com/gfd.timestamp"); });
  node_.InstallDriver();
  WaitForProduct("NVIDIA-H100-80GB-HBM3");
}

TEST_F(FeatureDiscoveryProgram, BadUsage) {  // section 1
  RecordProperty("holds", "feature-discovery.md #21");
  EXPECT_EQ(Program("feature_discovery_program", {}, Environment({"GFD_SLEEP_INTERVAL=60"})).Wait(),
            1);
  EXPECT_EQ(Program("feature_discovery_program", {}, {}).Wait(), 1);
}

}  // namespace
}  // namespace pitcrew::node::feature_discovery

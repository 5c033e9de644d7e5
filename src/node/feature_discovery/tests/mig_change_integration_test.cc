// Feature discovery follows what the MIG manager announces, on simulated GPUs.
#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>

#include "node/feature_discovery/daemon.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::feature_discovery {
namespace {

using test_support::SimulatedNode;

constexpr const char* kCount = "nvidia.com/mig-1g.10gb.count";

// The labels that were published last.
class Published {
 public:
  void Put(const Labels& labels) {
    const std::lock_guard lock(mutex_);
    labels_ = labels;
    const auto count = labels.find(kCount);
    if (count != labels.end()) ++times_[count->second];
    changed_.notify_all();
  }
  // Ends with the test's own time limit when it never comes.
  void WaitFor(const std::string& label, const std::string& value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      const auto found = labels_.find(label);
      return found != labels_.end() && found->second == value;
    });
  }
  // How often that many instances were told of.
  int TimesWith(const std::string& count) {
    const std::lock_guard lock(mutex_);
    return times_[count];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Labels labels_;
  std::map<std::string, int> times_;
};

class Recorder final : public Output {
 public:
  explicit Recorder(Published& published) : published_(published) {}
  base::Status Publish(const Labels& labels, const io::StopToken& /*stop*/) override {
    published_.Put(labels);
    return {};
  }

 private:
  Published& published_;
};

TEST(FeatureDiscovery, FollowsAChangedGeometryWithoutARestart) {
  const SimulatedNode node(
      "gpus: [{profile: H100-80, count: 1, mig: {enabled: true, devices: {1g.10gb: 7}}}]");
  node.InstallDriver();
  Options options;
  options.flags.mig_strategy = "mixed";
  options.flags.use_node_feature_api = false;  // the labels stay here
  options.flags.driver_root_in_here = node.driver_root().string();
  options.flags.sleep_interval = std::chrono::hours(24);  // nothing comes by itself
  NodePaths paths;
  paths.pci_devices = node.pci_devices();
  paths.validations = node.folder().path() / "validations";
  std::filesystem::create_directories(paths.validations);
  const validations::StatusFolder folder(paths.validations);
  Published published;
  test_support::DaemonThread daemon([&](const io::StopToken& stop) {
    const auto reload = io::SignalReceiver::Create({SIGHUP});
    return Daemon(
               options, paths,
               [&](const Settings&) -> base::Result<std::unique_ptr<Output>> {
                 return std::make_unique<Recorder>(published);
               },
               [](const base::Error&) {}, *reload, stop)
        .Run();
  });
  published.WaitFor(kCount, "7");
  EXPECT_EQ(validations::IsMigFollowed(folder, "gpu-feature-discovery"), true);

  const auto library = *nvml::Library::Open({node.driver_root()});
  const auto uuid = library->ReadInventory()->devices.at(0).uuid;
  ASSERT_TRUE(validations::AnnounceMigChange(folder, {uuid}));
  const auto control = *library->OpenMig(uuid);
  const auto instance = control->GpuInstances()->at(0);
  const auto compute = control->ComputeInstances(instance.id)->at(0);
  ASSERT_TRUE(control->DestroyComputeInstance(instance.id, compute.id));
  ASSERT_TRUE(control->DestroyGpuInstance(instance.id));
  EXPECT_EQ(published.TimesWith("6"), 0) << "what is half done is told to nobody";
  ASSERT_TRUE(validations::AnnounceMigChange(folder, {}));
  published.WaitFor(kCount, "6");
  const auto ran = daemon.Stop();
  EXPECT_TRUE(ran) << ran.error().ToString();
}

}  // namespace
}  // namespace pitcrew::node::feature_discovery

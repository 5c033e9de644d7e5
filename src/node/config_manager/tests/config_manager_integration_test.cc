// The config manager as a program, beside a real API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "codec/json.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/own_node/own_node.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::config_manager {
namespace {

using codec::Json;
using ::pitcrew::testing::ApiServer;
using test_support::Program;

constexpr const char* kLabel = "nvidia.com/device-plugin.config";

class ConfigManager : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    node_ = "config-" + std::to_string(++counter_);
    ASSERT_TRUE(client_->Create(kube::kNodes, {{"metadata", {{"name", node_}}}}));
    folder_.Write("available/two", "2");
    folder_.Write("available/four", "4");
    std::filesystem::create_directories(link_.parent_path());
  }
  void SetLabel(const Json& value) {
    const auto set = client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                                    {{"metadata", {{"labels", {{kLabel, value}}}}}});
    ASSERT_TRUE(set) << set.error().ToString();
  }
  // This test's own process is the one to signal.
  [[nodiscard]] std::vector<std::string> Environment(
      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {
        "KUBECONFIG=" + ApiServer::Shared().kubeconfig().string(),
        "NODE_NAME=" + node_,
        "CONFIG_FILE_SRCDIR=" + (folder_.path() / "available").string(),
        "CONFIG_FILE_DST=" + link_.string(),
        "SIGNAL=" + std::to_string(SIGUSR1),
        "PROCESS_TO_SIGNAL=config_manager_integration_test",
    };
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Waits for one signal.
  void TakeSignal() const {
    ASSERT_TRUE(io::WaitReadable({told_.fd()}, {}));
    EXPECT_EQ(told_.Take(), SIGUSR1);
  }
  [[nodiscard]] std::string Linked() const { return base::ReadFile(link_).value_or("(nothing)"); }
  // Blocks until the node has an Event of this reason; its message.
  [[nodiscard]] std::string EventMessage(const std::string& reason) const {
    while (true) {
      kube::ListOptions options;
      options.field_selector = "involvedObject.name=" + node_ + ",reason=" + reason;
      const auto events = client_->List(kube::kEvents, "default", options);
      EXPECT_TRUE(events) << events.error().ToString();
      if (!events) return "";
      if (!events->items.empty()) return codec::FindString(events->items[0], {"message"});
    }
  }

  static int counter_;
  const io::SignalReceiver told_ = io::SignalReceiver::Create({SIGUSR1}).value();
  test_support::TemporaryFolder folder_;
  std::filesystem::path link_ = folder_.path() / "config/config.yaml";
  std::shared_ptr<kube::Client> client_;
  std::string node_;
};
int ConfigManager::counter_ = 0;

TEST_F(ConfigManager, FollowsTheLabel) {
  RecordProperty("holds", "device-plugin.md #52");
  SetLabel("four");
  Program program("config_manager_program", {}, Environment({"DEFAULT_CONFIG=two"}));
  TakeSignal();
  EXPECT_EQ(Linked(), "4");
  SetLabel("two");
  TakeSignal();
  EXPECT_EQ(Linked(), "2");
  // The default is the same file: nothing changes, and nobody is told.
  SetLabel(nullptr);
  SetLabel("four");
  TakeSignal();
  EXPECT_EQ(Linked(), "4");
  EXPECT_EQ(told_.Take(), std::nullopt);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ConfigManager, TakesTheNodesLabelAtOnceWhenItLinksOnce) {  // section 22 number 1
  SetLabel("four");
  EXPECT_EQ(Program("config_manager_program", {},
                    Environment({"ONESHOT=true", "SEND_SIGNAL=false", "DEFAULT_CONFIG=two"}))
                .Wait(),
            0);
  EXPECT_EQ(Linked(), "4");
}

TEST_F(ConfigManager, FallsBackToNothing) {
  RecordProperty("holds", "device-plugin.md #52");
  EXPECT_EQ(Program("config_manager_program", {},
                    Environment({"ONESHOT=true", "SEND_SIGNAL=false", "FALLBACK_STRATEGIES=empty"}))
                .Wait(),
            0);
  EXPECT_EQ(std::filesystem::read_symlink(link_), "/dev/null");
}

TEST_F(ConfigManager, EndsWhenTheFirstConfigurationIsMissing) {
  RecordProperty("holds", "device-plugin.md #52");
  SetLabel("eight");
  for (const auto* once : {"ONESHOT=true", "ONESHOT=false"}) {
    EXPECT_EQ(
        Program("config_manager_program", {}, Environment({once, "DEFAULT_CONFIG=two"})).Wait(), 1);
    EXPECT_EQ(Linked(), "(nothing)");
  }
}

TEST_F(ConfigManager, KeepsTheLastGoodOneAndSaysSo) {
  SetLabel("two");
  Program program("config_manager_program", {}, Environment());
  TakeSignal();
  SetLabel("eight");
  EXPECT_THAT(EventMessage("ConfigurationRefused"), ::testing::HasSubstr("\"eight\""));
  EXPECT_EQ(Linked(), "2");
  // It comes when the ConfigMap has it.
  folder_.Write("available/eight", "8");
  TakeSignal();
  EXPECT_EQ(Linked(), "8");
}

TEST_F(ConfigManager, NoticesAnEditedConfigMap) {  // section 22 number 4
  const auto available = folder_.path() / "available";
  std::filesystem::remove(available / "four");
  // As the kubelet lays it out, and changes it: the link ..data is replaced.
  folder_.Write("available/..1/four", "4");
  folder_.Write("available/..2/four", "5");
  std::filesystem::create_directory_symlink("..1", available / "..data");
  std::filesystem::create_symlink("..data/four", available / "four");
  SetLabel("four");
  Program program("config_manager_program", {}, Environment());
  TakeSignal();
  EXPECT_EQ(Linked(), "4");
  std::filesystem::create_directory_symlink("..2", available / "..data_tmp");
  std::filesystem::rename(available / "..data_tmp", available / "..data");
  TakeSignal();
  EXPECT_EQ(Linked(), "5");
}

}  // namespace
}  // namespace pitcrew::node::config_manager

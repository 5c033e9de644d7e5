// Engines that are restarted through the node's systemd, over a real message bus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/toolkit/engine_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/system_bus/system_bus.h"

namespace pitcrew::node::toolkit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// CRI-O, because it is restarted so by default, and its socket is not waited for.
class RestartThroughSystemd : public ::testing::Test {
 protected:
  RestartThroughSystemd() {
    options_.kind = EngineKind::kCrio;
    options_.restart = RestartMode::kSystemd;
    options_.host_root = root_.path();
  }
  void Start(std::map<std::string, test_support::Unit> units) {
    auto bus = test_support::SystemBus::Start(root_.path() / "run/dbus/system_bus_socket");
    ASSERT_TRUE(bus) << bus.error().message;
    bus_ = *std::move(bus);
    systemd_ = bus_->StartSystemd(std::move(units));
  }
  [[nodiscard]] base::Status Restart() const {
    return RestartEngine(options_, {}, base::SteadyClock::now() + std::chrono::seconds(60));
  }

  test_support::TemporaryFolder root_;
  EngineOptions options_;
  std::unique_ptr<test_support::SystemBus> bus_;
  std::unique_ptr<test_support::FakeSystemd> systemd_;
};

TEST_F(RestartThroughSystemd, RestartsTheUnitOfTheEngine) {
  Start({{"crio.service", {{"loaded", "active", "running", "enabled"}}}});
  const auto restarted = Restart();
  ASSERT_TRUE(restarted) << restarted.error().message;
  EXPECT_THAT(systemd_->jobs(), ElementsAre("RestartUnit crio.service"));
}

TEST_F(RestartThroughSystemd, AnEngineThatDoesNotComeUpIsAnError) {
  Start({{"crio.service", {{"loaded", "failed", "failed", "enabled"}, "failed"}}});
  const auto restarted = Restart();
  ASSERT_FALSE(restarted);
  EXPECT_EQ(restarted.error().reason, "UnitJobFailed");
  EXPECT_THAT(restarted.error().message, HasSubstr("crio.service"));
}

TEST_F(RestartThroughSystemd, AUnitThatIsNotThereIsNamed) {
  Start({{"containerd.service", {{"loaded", "active", "running", "enabled"}}}});
  const auto restarted = Restart();
  ASSERT_FALSE(restarted);
  EXPECT_EQ(restarted.error().reason, "NoSuchUnit");
  EXPECT_THAT(systemd_->jobs(), ElementsAre());
}

TEST_F(RestartThroughSystemd, ANodeWithoutSystemdIsToldWhatElseThereIs) {
  const auto restarted = Restart();
  ASSERT_FALSE(restarted);
  EXPECT_EQ(restarted.error().reason, "NoSystemd");
  EXPECT_THAT(restarted.error().message, HasSubstr("RUNTIME_RESTART_MODE"));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

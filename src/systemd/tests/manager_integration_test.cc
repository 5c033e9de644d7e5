// A real message bus of the test's own, with a systemd on it that has a few units.
#include "systemd/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "tests/system_bus/system_bus.h"

namespace pitcrew::systemd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class SystemdTest : public ::testing::Test {
 protected:
  // Only the bus; the systemd on it is another step.
  void SetUp() override {
    auto bus = test_support::SystemBus::Start(Socket());
    ASSERT_TRUE(bus) << bus.error().message;
    bus_ = *std::move(bus);
  }
  void StartSystemd() {
    systemd_ = bus_->StartSystemd(
        {{"one.service", {{"loaded", "inactive", "dead", "enabled"}}},
         {"broken.service", {{"loaded", "failed", "failed", "static"}, "failed"}},
         {"slow.service", {{"loaded", "inactive", "dead", "disabled"}, ""}},
         {"masked.service", {{"masked", "inactive", "dead", "masked"}}}});
  }
  [[nodiscard]] std::filesystem::path Socket() const { return root_.path() / "bus.sock"; }
  [[nodiscard]] base::Result<Manager> Connect() const { return Manager::Connect(Socket()); }

  test_support::TemporaryFolder root_;
  std::unique_ptr<test_support::SystemBus> bus_;
  std::unique_ptr<test_support::FakeSystemd> systemd_;
};

TEST_F(SystemdTest, UnitsAreStartedStoppedAndRestarted) {
  StartSystemd();
  auto manager = Connect();
  ASSERT_TRUE(manager) << manager.error().message;
  EXPECT_EQ(*manager->Read("one.service"), (UnitState{"loaded", "inactive", "dead", "enabled"}));
  EXPECT_FALSE(manager->Read("one.service")->is_active());
  const auto started = manager->Start("one.service", {});
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_TRUE(manager->Read("one.service")->is_active());
  EXPECT_TRUE(manager->Restart("one.service", {}));
  EXPECT_EQ(manager->Read("one.service")->sub, "running");
  EXPECT_TRUE(manager->Stop("one.service", {}));
  EXPECT_FALSE(manager->Read("one.service")->is_active());
  EXPECT_THAT(systemd_->jobs(), ElementsAre("StartUnit one.service", "RestartUnit one.service",
                                            "StopUnit one.service"));
}

TEST_F(SystemdTest, UnitFilesAreReadAnew) {
  StartSystemd();
  auto manager = Connect();
  ASSERT_TRUE(manager) << manager.error().message;
  const auto read = manager->Reload();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(systemd_->jobs(), ElementsAre("Reload"));
}

TEST_F(SystemdTest, AUnitThatDoesNotExistIsAStateAndNoJob) {
  StartSystemd();
  auto manager = Connect();
  ASSERT_TRUE(manager) << manager.error().message;
  const auto started = manager->Start("none.service", {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, base::Code::kNotFound);
  EXPECT_EQ(started.error().reason, "NoSuchUnit");
  EXPECT_THAT(started.error().message, HasSubstr("none.service"));
  const auto state = manager->Read("none.service");
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_FALSE(state->exists());
}

TEST_F(SystemdTest, AFailedJobTellsWhatHasBecomeOfTheUnit) {
  StartSystemd();
  auto manager = Connect();
  ASSERT_TRUE(manager) << manager.error().message;
  const auto started = manager->Start("broken.service", {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().reason, "UnitJobFailed");
  EXPECT_THAT(started.error().message, HasSubstr("StartUnit broken.service"));
  EXPECT_THAT(started.error().message, HasSubstr("the unit is failed"));
  EXPECT_THAT(started.error().message, HasSubstr("journalctl"));
  EXPECT_EQ(manager->Start("masked.service", {}).error().reason, "UnitMasked");
}

// Whether to try again, or to ask for rights, or neither, depends on who refuses
// (org.freedesktop.systemd1(5), sd-bus-errors(3)).
TEST_F(SystemdTest, RefusalsAreToldApart) {
  const std::string bus = "org.freedesktop.DBus.Error.";
  const std::map<std::string, std::pair<base::Code, std::string>> meanings{
      {bus + "AccessDenied", {base::Code::kDenied, "SystemdDenied"}},
      {bus + "AuthFailed", {base::Code::kDenied, "SystemdDenied"}},
      {bus + "InteractiveAuthorizationRequired", {base::Code::kDenied, "SystemdDenied"}},
      {bus + "ServiceUnknown", {base::Code::kUnavailable, "SystemdUnavailable"}},
      {bus + "NameHasNoOwner", {base::Code::kUnavailable, "SystemdUnavailable"}},
      {bus + "NoReply", {base::Code::kUnavailable, "SystemdUnavailable"}},
      {bus + "Disconnected", {base::Code::kUnavailable, "SystemdUnavailable"}},
      {bus + "Timeout", {base::Code::kUnavailable, "SystemdUnavailable"}},
      {"org.freedesktop.systemd1.NoSuchUnit", {base::Code::kNotFound, "NoSuchUnit"}},
      {"org.freedesktop.systemd1.TransactionIsDestructive",
       {base::Code::kInternal, "SystemdRefused"}}};
  std::map<std::string, test_support::Unit> units;
  for (const auto& [refusal, meaning] : meanings) {
    units[refusal + ".service"] = {
        .state = {"loaded", "inactive", "dead", "static"}, .result = "done", .refusal = refusal};
  }
  systemd_ = bus_->StartSystemd(std::move(units));
  auto manager = Connect();
  ASSERT_TRUE(manager) << manager.error().message;
  for (const auto& [refusal, meaning] : meanings) {
    const auto started = manager->Start(refusal + ".service", {});
    ASSERT_FALSE(started) << refusal;
    EXPECT_EQ(started.error().code, meaning.first) << refusal;
    EXPECT_EQ(started.error().reason, meaning.second) << refusal;
    EXPECT_THAT(started.error().message, HasSubstr("Not this one.")) << refusal;
  }
}

TEST_F(SystemdTest, AWaitForAJobEndsAtTheDeadlineAndWithTheStop) {
  StartSystemd();
  auto manager = Connect();
  ASSERT_TRUE(manager) << manager.error().message;
  EXPECT_EQ(manager->Start("slow.service", {}, base::SteadyClock::now() + 50ms).error().code,
            base::Code::kTimeout);
  const io::StopSource stop;
  stop.Stop();
  EXPECT_EQ(manager->Start("slow.service", stop.token()).error().code, base::Code::kCancelled);
  EXPECT_TRUE(manager->Start("one.service", {})) << "the connection can be used further";
}

TEST_F(SystemdTest, NoSocketIsNoSystemd) {
  const auto manager = Manager::Connect(root_.path() / "none.sock");
  ASSERT_FALSE(manager);
  EXPECT_EQ(manager.error().code, base::Code::kNotFound);
  EXPECT_THAT(manager.error().message, HasSubstr("none.sock"));
}

TEST_F(SystemdTest, ABusWithoutSystemdIsNotThereNow) {
  const auto manager = Connect();
  ASSERT_FALSE(manager);
  EXPECT_EQ(manager.error().code, base::Code::kUnavailable);
  EXPECT_EQ(manager.error().reason, "SystemdUnavailable");
}

// A folder whose name an address cannot have as it is.
TEST_F(SystemdTest, OddPathsAreReached) {
  const auto folder = root_.path() / "a, b%;c";
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink(Socket(), folder / "bus.sock");
  StartSystemd();
  EXPECT_TRUE(Manager::Connect(folder / "bus.sock"));
}

}  // namespace
}  // namespace pitcrew::systemd

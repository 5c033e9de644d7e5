// A real message bus of the test's own, with a systemd on it that has a few units.
#include "systemd/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <systemd/sd-bus.h>

#include <atomic>
#include <thread>

#include "base/file.h"
#include "io/file_watcher.h"
#include "loopback/child_process.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::systemd {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";

// What systemd does with a unit that somebody wants to start or stop.
struct Unit {
  UnitState state;
  std::string result = "done";  // of its jobs; "": they never end
};

// The part of systemd's interface that is public and stable, on a thread of its own.
class FakeSystemd {
 public:
  explicit FakeSystemd(const std::string& address) : units_(Units()) {
    EXPECT_GE(sd_bus_new(&bus_), 0);
    EXPECT_GE(sd_bus_set_address(bus_, address.c_str()), 0);
    EXPECT_GE(sd_bus_set_bus_client(bus_, 1), 0);
    EXPECT_GE(sd_bus_start(bus_), 0);
    EXPECT_GE(sd_bus_add_object_vtable(bus_, nullptr, kPath, kManager, Methods(), this), 0);
    EXPECT_GE(
        sd_bus_add_fallback_vtable(bus_, nullptr, "/org/freedesktop/systemd1/unit",
                                   "org.freedesktop.systemd1.Unit", Properties(), FindUnit, this),
        0);
    EXPECT_GE(sd_bus_request_name(bus_, "org.freedesktop.systemd1", 0), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeSystemd() {
    stop_.Stop();
    thread_.join();
    sd_bus_flush_close_unref(bus_);
  }

  [[nodiscard]] int jobs() const { return jobs_; }

 private:
  static std::map<std::string, Unit> Units() {
    return {{"one.service", {{"loaded", "inactive", "dead", "enabled"}}},
            {"broken.service", {{"loaded", "failed", "failed", "static"}, "failed"}},
            {"slow.service", {{"loaded", "inactive", "dead", "disabled"}, ""}},
            {"masked.service", {{"masked", "inactive", "dead", "masked"}}}};
  }
  void Serve() {
    for (;;) {
      const int processed = sd_bus_process(bus_, nullptr);
      ASSERT_GE(processed, 0);
      if (processed == 0 && !io::WaitReadable({sd_bus_get_fd(bus_)}, stop_.token())) return;
    }
  }

  static int Subscribe(sd_bus_message* call, void* /*self*/, sd_bus_error* /*error*/) {
    return sd_bus_reply_method_return(call, nullptr);
  }
  static int LoadUnit(sd_bus_message* call, void* self, sd_bus_error* /*error*/) {
    auto& systemd = *static_cast<FakeSystemd*>(self);
    const char* name = nullptr;
    if (const int read = sd_bus_message_read(call, "s", &name); read < 0) return read;
    // systemd has an object for every name that is asked for.
    systemd.units_.try_emplace(name, Unit{{"not-found", "inactive", "dead", ""}});
    return sd_bus_reply_method_return(call, "o", PathOf(name).c_str());
  }
  static int RunJob(sd_bus_message* call, void* self, sd_bus_error* error) {
    auto& systemd = *static_cast<FakeSystemd*>(self);
    const char* name = nullptr;
    const char* mode = nullptr;
    if (const int read = sd_bus_message_read(call, "ss", &name, &mode); read < 0) return read;
    if (std::string_view(mode) != "replace") return -EINVAL;
    if (!systemd.units_.contains(name)) {
      return sd_bus_error_setf(error, "org.freedesktop.systemd1.NoSuchUnit", "Unit %s not found.",
                               name);
    }
    Unit& unit = systemd.units_[name];
    if (unit.state.load == "masked") {
      return sd_bus_error_setf(error, "org.freedesktop.systemd1.UnitMasked", "Unit %s is masked.",
                               name);
    }
    if (std::string_view(name) == "denied.service") return -EACCES;
    const int number = ++systemd.jobs_;
    const std::string job = std::string(kPath) + "/job/" + std::to_string(number);
    if (const int sent = sd_bus_reply_method_return(call, "o", job.c_str()); sent < 0) return sent;
    // Somebody else's job ends at the same time.
    systemd.Tell(1'000'000U, std::string(kPath) + "/job/1000000", "other.service", "failed");
    if (unit.result.empty()) return 1;
    if (unit.result == "done") {
      const bool stops = std::string_view(sd_bus_message_get_member(call)) == "StopUnit";
      unit.state.active = stops ? "inactive" : "active";
      unit.state.sub = stops ? "dead" : "running";
    }
    systemd.Tell(static_cast<std::uint32_t>(number), job, name, unit.result);
    return 1;
  }
  void Tell(std::uint32_t id, const std::string& job, const std::string& unit,
            const std::string& result) {
    sd_bus_emit_signal(bus_, kPath, kManager, "JobRemoved", "uoss", id, job.c_str(), unit.c_str(),
                       result.c_str());
  }

  static std::string PathOf(const std::string& name) {
    char* path = nullptr;
    sd_bus_path_encode("/org/freedesktop/systemd1/unit", name.c_str(), &path);
    const std::unique_ptr<char, void (*)(void*)> owned(path, std::free);
    return path;
  }
  static int FindUnit(sd_bus* /*bus*/, const char* path, const char* /*interface*/, void* self,
                      void** found, sd_bus_error* /*error*/) {
    for (auto& [name, unit] : static_cast<FakeSystemd*>(self)->units_) {
      if (PathOf(name) != path) continue;
      *found = &unit;
      return 1;
    }
    return 0;
  }
  template <std::string UnitState::* member>
  static int Property(sd_bus* /*bus*/, const char* /*path*/, const char* /*interface*/,
                      const char* /*property*/, sd_bus_message* reply, void* unit,
                      sd_bus_error* /*error*/) {
    return sd_bus_message_append(reply, "s", (static_cast<Unit*>(unit)->state.*member).c_str());
  }
  static const sd_bus_vtable* Methods() {
    static const sd_bus_vtable table[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("Subscribe", "", "", Subscribe, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("LoadUnit", "s", "o", LoadUnit, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("StartUnit", "ss", "o", RunJob, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("StopUnit", "ss", "o", RunJob, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("RestartUnit", "ss", "o", RunJob, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_SIGNAL("JobRemoved", "uoss", 0),
        SD_BUS_VTABLE_END};
    return table;
  }
  static const sd_bus_vtable* Properties() {
    static const sd_bus_vtable table[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("LoadState", "s", Property<&UnitState::load>, 0, 0),
        SD_BUS_PROPERTY("ActiveState", "s", Property<&UnitState::active>, 0, 0),
        SD_BUS_PROPERTY("SubState", "s", Property<&UnitState::sub>, 0, 0),
        SD_BUS_PROPERTY("UnitFileState", "s", Property<&UnitState::file>, 0, 0),
        SD_BUS_VTABLE_END};
    return table;
  }

  std::map<std::string, Unit> units_;  // of the thread
  sd_bus* bus_ = nullptr;
  std::atomic<int> jobs_ = 0;
  io::StopSource stop_;
  std::thread thread_;
};

class SystemdTest : public ::testing::Test {
 protected:
  // Only the bus; the systemd on it is another step.
  void SetUp() override {
    const auto program = ::pitcrew::testing::FindProgram("dbus-daemon");
    ASSERT_TRUE(program) << program.error().message;
    const auto config = root_.Write(
        "bus.conf",
        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
        "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
        "<busconfig><listen>unix:path=" +
            Socket().string() +
            "</listen><auth>EXTERNAL</auth><policy context=\"default\">"
            "<allow send_destination=\"*\" eavesdrop=\"true\"/><allow own=\"*\"/>"
            "<allow eavesdrop=\"true\"/></policy></busconfig>\n");
    const auto log = root_.path() / "bus.log";
    auto bus = ::pitcrew::testing::ChildProcess::Start(
        *program,
        {"--config-file=" + config.string(), "--nofork", "--nopidfile", "--print-address"}, log);
    ASSERT_TRUE(bus) << bus.error().message;
    bus_ = *std::move(bus);
    // It tells its address when it listens.
    ASSERT_TRUE(io::WaitForFiles(
        {root_.path()},
        [&]() -> base::Result<bool> {
          return base::ReadFile(log).value_or("").find("unix:path=") != std::string::npos;
        },
        {}, base::SteadyClock::now() + 60s))
        << bus_->LogTail();
  }
  void StartSystemd() {
    systemd_ = std::make_unique<FakeSystemd>("unix:path=" + Socket().string());
  }
  [[nodiscard]] std::filesystem::path Socket() const { return root_.path() / "bus.sock"; }
  [[nodiscard]] base::Result<Manager> Connect() const { return Manager::Connect(Socket()); }

  test_support::TemporaryFolder root_;
  std::unique_ptr<::pitcrew::testing::ChildProcess> bus_;
  std::unique_ptr<FakeSystemd> systemd_;
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
  EXPECT_EQ(systemd_->jobs(), 3);
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

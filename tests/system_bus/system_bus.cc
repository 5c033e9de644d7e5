#include "tests/system_bus/system_bus.h"

#include <gtest/gtest.h>
#include <systemd/sd-bus.h>

#include <mutex>
#include <thread>
#include <utility>

#include "base/file.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "loopback/child_process.h"
#include "tests/support/patience.h"

namespace pitcrew::test_support {
namespace {

using systemd::UnitState;

constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";

// On a thread of its own.
class OnBus : public FakeSystemd {
 public:
  OnBus(const std::string& address, std::map<std::string, Unit> units) : units_(std::move(units)) {
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
  ~OnBus() override {
    stop_.Stop();
    thread_.join();
    sd_bus_flush_close_unref(bus_);
  }

  [[nodiscard]] std::vector<std::string> jobs() override {
    const std::lock_guard lock(mutex_);
    return jobs_;
  }

 private:
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
  static int Reload(sd_bus_message* call, void* self, sd_bus_error* /*error*/) {
    static_cast<OnBus*>(self)->NoteJob("Reload");
    return sd_bus_reply_method_return(call, nullptr);
  }
  static int LoadUnit(sd_bus_message* call, void* self, sd_bus_error* /*error*/) {
    auto& systemd = *static_cast<OnBus*>(self);
    const char* name = nullptr;
    if (const int read = sd_bus_message_read(call, "s", &name); read < 0) return read;
    // systemd has an object for every name that is asked for.
    systemd.units_.try_emplace(name, Unit{{"not-found", "inactive", "dead", ""}});
    return sd_bus_reply_method_return(call, "o", PathOf(name).c_str());
  }
  static int RunJob(sd_bus_message* call, void* self, sd_bus_error* error) {
    auto& systemd = *static_cast<OnBus*>(self);
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
    if (!unit.refusal.empty()) {
      return sd_bus_error_set(error, unit.refusal.c_str(), "Not this one.");
    }
    const auto number = systemd.NoteJob(std::string(sd_bus_message_get_member(call)) + " " + name);
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
    systemd.Tell(number, job, name, unit.result);
    return 1;
  }
  // Its number.
  std::uint32_t NoteJob(std::string job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    return static_cast<std::uint32_t>(jobs_.size());
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
    for (auto& [name, unit] : static_cast<OnBus*>(self)->units_) {
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
        SD_BUS_METHOD("Reload", "", "", Reload, SD_BUS_VTABLE_UNPRIVILEGED),
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
  std::mutex mutex_;
  std::vector<std::string> jobs_;
  io::StopSource stop_;
  std::thread thread_;
};

class Daemon : public SystemBus {
 public:
  Daemon(std::filesystem::path socket, std::unique_ptr<::pitcrew::testing::ChildProcess> process)
      : socket_(std::move(socket)), process_(std::move(process)) {}
  std::unique_ptr<FakeSystemd> StartSystemd(std::map<std::string, Unit> units) override {
    return std::make_unique<OnBus>("unix:path=" + socket_.string(), std::move(units));
  }

 private:
  const std::filesystem::path socket_;
  const std::unique_ptr<::pitcrew::testing::ChildProcess> process_;
};

std::string Configuration(const std::filesystem::path& socket) {
  return "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
         "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
         "<busconfig><listen>unix:path=" +
         socket.string() +
         "</listen><auth>EXTERNAL</auth><policy context=\"default\">"
         "<allow send_destination=\"*\" eavesdrop=\"true\"/><allow own=\"*\"/>"
         "<allow eavesdrop=\"true\"/></policy></busconfig>\n";
}

}  // namespace

base::Result<std::unique_ptr<SystemBus>> SystemBus::Start(const std::filesystem::path& socket) {
  const auto folder = socket.parent_path();
  std::filesystem::create_directories(folder);
  TRY_ASSIGN(const auto program, ::pitcrew::testing::FindProgram("dbus-daemon"));
  const auto config = folder / "bus.conf";
  TRY(base::WriteFileAtomically(config, Configuration(socket)));
  const auto log = folder / "bus.log";
  TRY_ASSIGN(
      auto process,
      ::pitcrew::testing::ChildProcess::Start(
          program,
          {"--config-file=" + config.string(), "--nofork", "--nopidfile", "--print-address"}, log));
  // It tells its address when it listens.
  const auto listens = io::WaitForFiles(
      {folder},
      [&]() -> base::Result<bool> {
        return base::ReadFile(log).value_or("").find("unix:path=") != std::string::npos;
      },
      {}, base::SteadyClock::now() + test_support::kPatience);
  if (!listens) return base::Fail(listens.error().Within(process->LogTail()));
  return std::make_unique<Daemon>(socket, std::move(process));
}

}  // namespace pitcrew::test_support

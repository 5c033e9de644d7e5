#include "systemd/manager.h"

#include <fmt/format.h>
#include <systemd/sd-bus.h>

#include <cctype>
#include <cstdlib>
#include <string_view>

namespace pitcrew::systemd {
namespace {

constexpr const char* kService = "org.freedesktop.systemd1";
constexpr const char* kPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";
constexpr const char* kUnit = "org.freedesktop.systemd1.Unit";

class CallError {
 public:
  CallError() = default;
  ~CallError() { sd_bus_error_free(&error_); }
  CallError(const CallError&) = delete;
  CallError& operator=(const CallError&) = delete;

  sd_bus_error* get() { return &error_; }
  [[nodiscard]] std::string_view name() const { return error_.name == nullptr ? "" : error_.name; }
  [[nodiscard]] std::string_view message() const {
    return error_.message == nullptr ? "" : error_.message;
  }

 private:
  sd_bus_error error_ = SD_BUS_ERROR_NULL;
};

struct FreeMessage {
  void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, FreeMessage>;

// A D-Bus address keeps these characters, and has all others as %xx.
std::string AddressOf(const std::filesystem::path& socket) {
  std::string address = "unix:path=";
  for (const unsigned char c : socket.string()) {
    if (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '/' || c == '.') {
      address += static_cast<char>(c);
    } else {
      address += fmt::format("%{:02x}", c);
    }
  }
  return address;
}

base::Error ErrorOf(const CallError& error, int result, std::string_view what) {
  const std::string_view name = error.name();
  const std::string text =
      fmt::format("{}: {}", what,
                  error.message().empty() ? base::FromErrno(-result, "ask systemd").message
                                          : std::string(error.message()));
  if (name == "org.freedesktop.systemd1.NoSuchUnit") return base::NotFound("NoSuchUnit", text);
  if (name == "org.freedesktop.systemd1.UnitMasked") {
    return {base::Code::kUnsupported, "UnitMasked", text};
  }
  if (name == SD_BUS_ERROR_ACCESS_DENIED || name == SD_BUS_ERROR_AUTH_FAILED ||
      name == SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED) {
    return {base::Code::kDenied, "SystemdDenied", text + "; only the node's root may do that"};
  }
  const bool away = error.name().empty() || name == SD_BUS_ERROR_SERVICE_UNKNOWN ||
                    name == SD_BUS_ERROR_NAME_HAS_NO_OWNER || name == SD_BUS_ERROR_NO_REPLY ||
                    name == SD_BUS_ERROR_DISCONNECTED || name == SD_BUS_ERROR_TIMEOUT;
  return away ? base::Unavailable("SystemdUnavailable", text)
              : base::Internal("SystemdRefused", text);
}

// JobRemoved: id, object path, unit and result of a job that has ended.
int NoteJob(sd_bus_message* message, void* results, sd_bus_error* /*error*/) {
  std::uint32_t id = 0;
  const char* path = nullptr;
  const char* unit = nullptr;
  const char* result = nullptr;
  if (sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) >= 0) {
    (*static_cast<std::map<std::string, std::string>*>(results))[path] = result;
  }
  return 0;
}

base::Result<std::string> Property(sd_bus* bus, const std::string& path, const char* name,
                                   const std::string& unit) {
  CallError error;
  char* text = nullptr;
  const int read =
      sd_bus_get_property_string(bus, kService, path.c_str(), kUnit, name, error.get(), &text);
  if (read < 0) return base::Fail(ErrorOf(error, read, fmt::format("{} of {}", name, unit)));
  const std::unique_ptr<char, void (*)(void*)> owned(text, std::free);
  return std::string(text);
}

}  // namespace

void Manager::Close::operator()(sd_bus* bus) const { sd_bus_flush_close_unref(bus); }

base::Result<Manager> Manager::Connect(const std::filesystem::path& socket) {
  sd_bus* made = nullptr;
  int result = sd_bus_new(&made);
  std::unique_ptr<sd_bus, Close> bus(made);
  const std::string what = fmt::format("connect to the system bus at {}", socket.string());
  if (result >= 0) result = sd_bus_set_address(bus.get(), AddressOf(socket).c_str());
  if (result >= 0) result = sd_bus_set_bus_client(bus.get(), 1);
  if (result >= 0) result = sd_bus_start(bus.get());
  if (result < 0) return base::Fail(base::FromErrno(-result, what));
  auto results = std::make_unique<Results>();
  result = sd_bus_match_signal(bus.get(), nullptr, kService, kPath, kManager, "JobRemoved", NoteJob,
                               results.get());
  if (result < 0) return base::Fail(base::FromErrno(-result, what));
  // Without it systemd sends no signals.
  CallError error;
  result = sd_bus_call_method(bus.get(), kService, kPath, kManager, "Subscribe", error.get(),
                              nullptr, nullptr);
  if (result < 0) return base::Fail(ErrorOf(error, result, what));
  return Manager(std::move(bus), std::move(results));
}

base::Result<UnitState> Manager::Read(const std::string& unit) {
  CallError error;
  sd_bus_message* answer = nullptr;
  const int called = sd_bus_call_method(bus_.get(), kService, kPath, kManager, "LoadUnit",
                                        error.get(), &answer, "s", unit.c_str());
  const Message reply(answer);
  const char* path = nullptr;
  if (called < 0) return base::Fail(ErrorOf(error, called, "load " + unit));
  if (const int read = sd_bus_message_read(answer, "o", &path); read < 0) {
    return base::Fail(base::FromErrno(-read, "read systemd's answer about " + unit));
  }
  const std::string object = path;
  UnitState state;
  TRY_ASSIGN(state.load, Property(bus_.get(), object, "LoadState", unit));
  TRY_ASSIGN(state.active, Property(bus_.get(), object, "ActiveState", unit));
  TRY_ASSIGN(state.sub, Property(bus_.get(), object, "SubState", unit));
  TRY_ASSIGN(state.file, Property(bus_.get(), object, "UnitFileState", unit));
  return state;
}

base::Result<std::string> Manager::AwaitJob(const std::string& job, const io::StopToken& stop,
                                            base::Deadline deadline) {
  for (;;) {
    if (const auto ended = results_->find(job); ended != results_->end()) {
      return std::move(ended->second);
    }
    const int processed = sd_bus_process(bus_.get(), nullptr);
    if (processed < 0) {
      return base::Fail(base::Unavailable(
          "SystemdUnavailable", base::FromErrno(-processed, "hear from systemd").message));
    }
    if (processed == 0) TRY(io::WaitReadable({sd_bus_get_fd(bus_.get())}, stop, deadline));
  }
}

base::Status Manager::RunJob(const char* method, const std::string& unit, const io::StopToken& stop,
                             base::Deadline deadline) {
  results_->clear();
  CallError error;
  sd_bus_message* answer = nullptr;
  const std::string what = fmt::format("{} {}", method, unit);
  const int called = sd_bus_call_method(bus_.get(), kService, kPath, kManager, method, error.get(),
                                        &answer, "ss", unit.c_str(), "replace");
  const Message reply(answer);
  if (called < 0) return base::Fail(ErrorOf(error, called, what));
  const char* job = nullptr;
  if (const int read = sd_bus_message_read(answer, "o", &job); read < 0) {
    return base::Fail(base::FromErrno(-read, "read systemd's answer to " + what));
  }
  auto result = AwaitJob(job, stop, deadline);
  if (!result) return base::Fail(result.error().Within(what));
  if (*result == "done") return {};
  const auto state = Read(unit);
  return base::Fail(base::Unavailable(
      "UnitJobFailed",
      fmt::format("{}: systemd's job ended with \"{}\"{}; see journalctl --unit {} on the node",
                  what, *result,
                  state ? fmt::format(", the unit is {} ({})", state->active, state->sub) : "",
                  unit)));
}

base::Status Manager::Start(const std::string& unit, const io::StopToken& stop,
                            base::Deadline deadline) {
  return RunJob("StartUnit", unit, stop, deadline);
}

base::Status Manager::Stop(const std::string& unit, const io::StopToken& stop,
                           base::Deadline deadline) {
  return RunJob("StopUnit", unit, stop, deadline);
}

base::Status Manager::Restart(const std::string& unit, const io::StopToken& stop,
                              base::Deadline deadline) {
  return RunJob("RestartUnit", unit, stop, deadline);
}

base::Status Manager::Reload() {
  CallError error;
  const int called = sd_bus_call_method(bus_.get(), kService, kPath, kManager, "Reload",
                                        error.get(), nullptr, nullptr);
  if (called < 0) return base::Fail(ErrorOf(error, called, "read the unit files anew"));
  return {};
}

}  // namespace pitcrew::systemd

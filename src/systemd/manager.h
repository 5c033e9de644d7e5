// The systemd of a node over D-Bus: whether its units run, and starting and stopping them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"

struct sd_bus;

namespace pitcrew::systemd {

// On the node; a pod sees it below the folder at which the node's root is mounted.
inline constexpr const char* kSystemBusSocket = "/run/dbus/system_bus_socket";

// The words are systemd's own (org.freedesktop.systemd1(5)).
struct UnitState {
  std::string load;    // loaded, not-found, masked, error, ...
  std::string active;  // active, reloading, inactive, failed, activating, deactivating, ...
  std::string sub;     // running, exited, dead, ...: depends on the kind of unit
  std::string file;    // enabled, disabled, static, masked, ...; "" without a file

  [[nodiscard]] bool exists() const { return load != "not-found"; }
  // As `systemctl is-active` says it.
  [[nodiscard]] bool is_active() const { return active == "active" || active == "reloading"; }

  bool operator==(const UnitState&) const = default;
};

// One connection to the system bus, for one piece of work: what systemd says of all its jobs piles
// up in one that nobody uses. For one thread at a time.
class Manager {
 public:
  // `socket` is that of the node's system bus as this process sees it, for example
  // /host/run/dbus/system_bus_socket in a pod. kNotFound when there is none: the node has no
  // systemd, or no D-Bus; kUnavailable "SystemdUnavailable" when nobody answers as systemd there.
  static base::Result<Manager> Connect(const std::filesystem::path& socket = kSystemBusSocket);

  // A unit that does not exist is a state too. `unit` has its ending: "docker.service".
  base::Result<UnitState> Read(const std::string& unit);

  // Each waits for the end of systemd's job by its signal. Starting what runs and stopping what
  // does not is a success. On stop or at the deadline the job goes on in systemd.
  //
  // kNotFound "NoSuchUnit"; kUnsupported "UnitMasked"; kDenied "SystemdDenied";
  // kUnavailable "UnitJobFailed" tells systemd's result, the unit's state, and where its log is.
  base::Status Start(const std::string& unit, const io::StopToken& stop,
                     base::Deadline deadline = {});
  base::Status Stop(const std::string& unit, const io::StopToken& stop,
                    base::Deadline deadline = {});
  // Starts it also when it does not run.
  base::Status Restart(const std::string& unit, const io::StopToken& stop,
                       base::Deadline deadline = {});

  // Reads all unit files anew, as `systemctl daemon-reload`; returns when that is done. Errors as
  // above.
  base::Status Reload();

 private:
  struct Close {
    void operator()(sd_bus* bus) const;
  };
  // What systemd has said of jobs that have ended: result by object path.
  using Results = std::map<std::string, std::string>;

  Manager(std::unique_ptr<sd_bus, Close> bus, std::unique_ptr<Results> results)
      : results_(std::move(results)), bus_(std::move(bus)) {}
  base::Status RunJob(const char* method, const std::string& unit, const io::StopToken& stop,
                      base::Deadline deadline);
  base::Result<std::string> AwaitJob(const std::string& job, const io::StopToken& stop,
                                     base::Deadline deadline);

  std::unique_ptr<Results> results_;  // outlives the bus, whose callback fills it
  std::unique_ptr<sd_bus, Close> bus_;
};

}  // namespace pitcrew::systemd

// A real message bus of a test's own, and a systemd on it that has the units which the test gives
// it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "systemd/manager.h"

namespace pitcrew::test_support {

// What systemd does with a unit that somebody wants to start or stop. "denied.service" may not be
// touched.
struct Unit {
  systemd::UnitState state;
  std::string result = "done";  // of its jobs; "": they never end
  // D-Bus error by which its jobs are refused; "": they are not.
  std::string refusal = {};
};

// The part of systemd's interface that is public and stable, from construction to destruction.
class FakeSystemd {
 public:
  virtual ~FakeSystemd() = default;
  // What it was told so far, in order, as "StopUnit one.service" and "Reload". From any thread.
  [[nodiscard]] virtual std::vector<std::string> jobs() = 0;
};

// Runs from construction to destruction.
class SystemBus {
 public:
  // Also makes the socket's folder, and keeps its own files there.
  static base::Result<std::unique_ptr<SystemBus>> Start(const std::filesystem::path& socket);
  virtual ~SystemBus() = default;
  virtual std::unique_ptr<FakeSystemd> StartSystemd(std::map<std::string, Unit> units) = 0;
};

}  // namespace pitcrew::test_support

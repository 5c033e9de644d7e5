#include "node/driver_container/take_down.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "host/device_users.h"
#include "host/kernel.h"
#include "host/uevent.h"
#include "node/driver_container/daemons.h"
#include "node/driver_container/kernel_side.h"

namespace pitcrew::node::driver_container {
namespace {

// For uses that end without an event: those of the kernel's own (a console on a GPU), and of
// programs that are hidden from here.
constexpr std::chrono::seconds kUntilNextLook{10};

// All that the driver's modules may have made: which of its nodes there are is not asked.
base::Result<host::DeviceNumbers> DriverDevices(const Places& places) {
  constexpr unsigned kMinors = 256;
  TRY_ASSIGN(const auto majors, host::ReadCharacterMajors(places.proc));
  host::DeviceNumbers numbers;
  for (const auto& [name, major_number] : majors) {
    if (!name.starts_with("nvidia") && name != "gdrdrv") continue;
    for (unsigned minor_number = 0; minor_number < kMinors; ++minor_number) {
      numbers.insert(makedev(major_number, minor_number));
    }
  }
  return numbers;
}

// Programs that have GPUs open, beside the driver's own daemons. What cannot be seen from here is
// found out when the modules are to go.
base::Result<std::vector<host::DeviceUser>> FindForeignUsers(const Places& places) {
  TRY_ASSIGN(const auto devices, DriverDevices(places));
  auto users = host::FindDeviceUsers(devices, places.proc);
  if (!users) {
    base::LogWarning("Who uses the GPUs cannot be seen", users.error());
    return std::vector<host::DeviceUser>();
  }
  const auto own = RunningDaemons(places);
  std::erase_if(*users, [&](const auto& user) { return own.contains(user.pid); });
  return *std::move(users);
}

base::Status RefuseUsers(const std::vector<host::DeviceUser>& users) {
  if (users.empty()) return {};
  std::vector<std::string> names;
  for (const auto& user : users) names.push_back(user.ToString());
  return base::Fail(base::Unavailable(
      "DriverInUse", fmt::format("the loaded driver is in use by {}; end the programs that use "
                                 "GPUs of this node",
                                 base::Join(names, ", "))));
}

// What an attempt has to find changed that follows one for which daemons were ended in vain.
struct Holding {
  LoadedModules modules;
  std::set<pid_t> daemons;

  bool operator==(const Holding&) const = default;
};

// Tells when a program or a module lets go of the driver.
class LettingGo {
 public:
  explicit LettingGo(const Places& places)
      : places_(places),
        closed_(host::DeviceUserWatcher::Create()),
        kernel_(host::UeventReceiver::Create()) {
    if (!closed_) base::LogWarning("Programs are looked at from time to time", closed_.error());
    if (!kernel_) base::LogWarning("Modules are looked at from time to time", kernel_.error());
  }

  // From now on also of whoever uses it now. Look whether it is used after this.
  void WatchUsers() {
    const auto users = FindForeignUsers(places_);
    if (users && closed_) closed_->Watch(*users);
  }

  void Forget() {
    if (closed_) closed_->Take();
    if (!kernel_) return;
    if (const auto taken = kernel_->Take(); !taken) kernel_ = base::Fail(taken.error());
  }

  void Wait() {
    // A descriptor of -1 is passed over.
    const int closed = closed_ ? closed_->fd() : -1;
    const int kernel = kernel_ ? kernel_->fd() : -1;
    [[maybe_unused]] const auto event =
        io::WaitReadable({closed, kernel}, {}, std::chrono::steady_clock::now() + kUntilNextLook);
    Forget();
  }

 private:
  const Places& places_;
  base::Result<host::DeviceUserWatcher> closed_;
  base::Result<host::UeventReceiver> kernel_;
};

}  // namespace

base::Status RefuseUsedDriver(const Places& places) {
  TRY_ASSIGN(const auto loaded, ReadDriverModules(places.sys));
  if (loaded.empty()) return {};
  // Programs first: of them the name is known.
  TRY_ASSIGN(const auto users, FindForeignUsers(places));
  TRY(RefuseUsers(users));
  return RefuseForeignUses(loaded);
}

base::Status TakeDown(const Options& options) {
  TRY(RefuseUsedDriver(options.places));
  const bool had_daemons = !RunningDaemons(options.places).empty();
  base::Status down = StopDaemons(options.places);
  if (down) down = UnloadDriverModules(options);
  if (!down && had_daemons) {
    if (const auto again = StartDaemons(options, {}); !again) {
      base::LogWarning("A daemon could not be started again", again.error());
    }
  }
  return down;
}

void TakeDownWhenUnused(const Options& options) {
  LettingGo letting_go(options.places);
  std::string said;
  std::optional<Holding> in_vain;
  while (true) {
    letting_go.WatchUsers();
    base::Status down = RefuseUsedDriver(options.places);
    const auto modules = ReadDriverModules(options.places.sys);
    const bool is_as_before =
        modules && in_vain && in_vain == Holding{*modules, RunningDaemons(options.places)};
    if (down && !is_as_before) {
      down = TakeDown(options);
      if (down) return;
      if (modules) in_vain = {*modules, RunningDaemons(options.places)};
      // The own daemons have opened and closed devices, too.
      letting_go.Forget();
    }
    if (!down && down.error().message != said) {
      base::LogWarning("The driver stays until nobody uses it", down.error());
      said = down.error().message;
    }
    letting_go.Wait();
  }
}

}  // namespace pitcrew::node::driver_container

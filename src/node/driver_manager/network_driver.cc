#include "node/driver_manager/network_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/log.h"
#include "host/kernel.h"
#include "host/pci.h"
#include "host/uevent.h"
#include "node/validations/status_folder.h"

namespace pitcrew::node::driver_manager {
namespace {

constexpr const char* kModule = "mlx5_core";

base::Result<bool> HasNetworkCard(const Options& options) {
  TRY_ASSIGN(const auto scan, host::ReadPciDevices(options.sys / "bus/pci/devices"));
  return std::ranges::any_of(
      scan.devices, [](const auto& device) { return device.vendor == host::kVendorMellanox; });
}

base::Result<bool> IsLoaded(const Options& options) {
  TRY_ASSIGN(const auto modules, host::ReadLoadedModules(options.proc));
  return std::ranges::find(modules, kModule) != modules.end();
}

base::Status AwaitModule(const Options& options, base::Deadline deadline,
                         const io::StopToken& stop) {
  // Listening comes before looking, so that a module that comes between the two is not missed.
  TRY_ASSIGN(auto events, host::UeventReceiver::Create());
  while (true) {
    TRY_ASSIGN(const bool loaded, IsLoaded(options));
    if (loaded) return {};
    TRY(io::WaitReadable({events.fd()}, stop, deadline));
    TRY(events.Take());
  }
}

base::Status Await(const Options& options, const io::StopToken& stop) {
  const auto deadline = options.mofed_timeout.count() == 0
                            ? base::Deadline::Never()
                            : base::Deadline::After(options.mofed_timeout);
  if (options.host_mofed) return AwaitModule(options, deadline, stop);
  return validations::StatusFolder(options.mofed_ready.parent_path())
      .Await(options.mofed_ready.filename().string(), stop,
             deadline.never() ? std::nullopt : std::optional(deadline.at()));
}

}  // namespace

base::Status AwaitNetworkDriver(const Options& options, const io::StopToken& stop) {
  if (!options.gpu_direct_rdma) return {};
  TRY_ASSIGN(const bool has_card, HasNetworkCard(options));
  if (!has_card) return {};
  const std::string what =
      options.host_mofed
          ? fmt::format("kernel module {} is not loaded on the host", kModule)
          : fmt::format("{} does not exist: the container of the network driver is not ready",
                        options.mofed_ready.string());
  base::LogInfo("Waiting for the network driver");
  const auto came = Await(options, stop);
  if (came || came.error().code != base::Code::kTimeout) return came;
  return base::Fail(base::Unavailable(
      "NetworkDriverMissing",
      fmt::format(
          "{}; it was waited for {} s (MOFED_TIMEOUT). Install the network driver, or switch "
          "driver.rdma off",
          what, std::chrono::duration_cast<std::chrono::seconds>(options.mofed_timeout).count())));
}

}  // namespace pitcrew::node::driver_manager

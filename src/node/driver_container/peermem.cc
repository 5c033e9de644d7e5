#include "node/driver_container/peermem.h"

#include <algorithm>

#include "base/log.h"
#include "host/kernel.h"
#include "host/uevent.h"
#include "kernel_modules/kernel_modules.h"
#include "node/validations/status_folder.h"

namespace pitcrew::node::driver_container {
namespace {

constexpr const char* kPeermemModule = "nvidia-peermem";
constexpr const char* kNetworkModule = "mlx5_core";

base::Result<bool> IsLoaded(const Places& places, std::string_view module) {
  TRY_ASSIGN(const auto loaded, host::ReadLoadedModules(places.proc));
  return std::ranges::find(loaded, module) != loaded.end();
}

base::Status AwaitNetworkModule(const Places& places, const io::StopToken& stop) {
  TRY_ASSIGN(auto events, host::UeventReceiver::Create());
  while (true) {
    TRY_ASSIGN(const bool loaded, IsLoaded(places, kNetworkModule));
    if (loaded) return {};
    TRY(io::WaitReadable({events.fd()}, stop));
    TRY(events.Take());
  }
}

base::Status AwaitNetworkDriver(const Options& options, const io::StopToken& stop) {
  if (options.host_mofed) return AwaitNetworkModule(options.places, stop);
  return validations::StatusFolder(options.places.mofed).Await(".driver-ready", stop);
}

}  // namespace

base::Status ReloadPeermem(const Options& options, const io::StopToken& stop) {
  base::LogInfo("Waiting for the network driver and for the GPU driver");
  TRY(AwaitNetworkDriver(options, stop));
  TRY(validations::StatusFolder(options.places.run / "validations")
          .Await(validations::kDriverContainerReady, stop));
  TRY_ASSIGN(const bool loaded, IsLoaded(options.places, "nvidia_peermem"));
  if (!loaded) {
    TRY_ASSIGN(const auto release, host::ReadKernelRelease(options.places.proc));
    // The files are the driver container's, not those of this one.
    TRY_ASSIGN(const auto modules,
               kernel_modules::Modules::Open(host::Root(options.places.run / "driver"), release));
    TRY(modules.Load(kPeermemModule));
  }
  base::LogInfo("nvidia-peermem is loaded");
  stop.Wait();
  return {};
}

base::Status ProbePeermem(const Options& options) {
  TRY_ASSIGN(const bool network, IsLoaded(options.places, kNetworkModule));
  TRY_ASSIGN(const bool peermem, IsLoaded(options.places, "nvidia_peermem"));
  if (!network || peermem) return {};
  return base::Fail(base::Unavailable("PeermemMissing",
                                      "the network driver is loaded and nvidia-peermem is not"));
}

}  // namespace pitcrew::node::driver_container

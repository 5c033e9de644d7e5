// The files below /run/nvidia by which a driver container is known: its lock and process number,
// how far its daemons are, the digest of what it was made from (driver-lifecycle.md 1.2).
#pragma once

#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

class RunFiles {
 public:
  // Takes the lock and writes the own process number. kExists "DriverContainerRunning" when another
  // driver container has it: that one is not disturbed.
  static base::Result<RunFiles> Take(const Places& places);

  // Not ready; whoever waits for the driver must not take an earlier one's word.
  base::Status SetNotReady();
  base::Status SetReady();
  // Neither: what is left behind must not keep another image's driver from being ready.
  base::Status RemoveReadiness();

  // That the driver which was installed last was made from this; "" where none is known.
  [[nodiscard]] base::Result<std::string> ReadDigest() const;
  base::Status StoreDigest(const std::string& digest);
  // Before another driver is loaded: it must not be taken for the one of before.
  base::Status ForgetDigest();

  // Where the node has a place for what runs after a kernel was installed: have `update` run then.
  base::Status InstallKernelHook();
  // At the end: process number, readiness, hook.
  base::Status Remove();

 private:
  RunFiles(Places places, base::FileDescriptor lock)
      : places_(std::move(places)), lock_(std::move(lock)) {}

  Places places_;
  base::FileDescriptor lock_;
};

}  // namespace pitcrew::node::driver_container

#include "node/driver_container/container.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>

#include "base/log.h"
#include "base/strings.h"
#include "host/mounts.h"
#include "host/selinux.h"
#include "node/driver_container/daemons.h"
#include "node/driver_container/driver_files.h"
#include "node/driver_container/facts.h"
#include "node/driver_container/kernel_packages.h"
#include "node/driver_container/kernel_side.h"
#include "node/driver_container/parameters.h"
#include "node/driver_container/plan.h"
#include "node/driver_container/run_files.h"
#include "node/driver_container/take_down.h"

namespace pitcrew::node::driver_container {
namespace {

class Container {
 public:
  Container(const Options& options, const io::StopToken& stop) : options_(options), stop_(stop) {}

  base::Status Run() {
    TRY_ASSIGN(auto files, RunFiles::Take(options_.places));
    TRY(files.SetNotReady());
    TRY_ASSIGN(const auto loaded, ReadDriverModules(options_.places.sys));
    TRY_ASSIGN(const auto digest, files.ReadDigest());
    const bool keep =
        IsWhole(loaded) && !options_.config_digest.empty() && digest == options_.config_digest;
    const base::Status up = keep ? KeepLoaded(files) : BringUp(files);
    if (!up) {
      GiveUp(files, keep);
      return up;
    }
    TRY(files.SetReady());
    base::LogInfo("The driver is up", {{"version", options_.version}});
    stop_.Wait();
    return Leave(files);
  }

 private:
  base::Status Step(std::string_view what) {
    base::LogInfo("Step", {{"of", what}});
    return stop_.stopped() ? base::Status(base::Fail(stop_.error())) : base::Status();
  }

  // Everything that can fail for want of something comes before the node is touched.
  base::Status BringUp(RunFiles& files) {
    TRY(Step("preflight"));
    TRY_ASSIGN(const bool with_rdma, HasDirectRdma(options_));
    TRY_ASSIGN(const auto facts, ObserveImage(options_));
    TRY_ASSIGN(auto plan, DecideInstall(options_, facts));
    if (options_.action == Action::kLoad && plan.compile) {
      return base::Fail(
          base::Error{base::Code::kUnsupported, "NoModulesForKernel",
                      fmt::format("`build` has made no modules for the kernel {}", facts.kernel)});
    }
    TRY_ASSIGN(const auto parameters,
               ReadModuleParameters(options_.places.drivers, options_.branch()));
    DriverFiles driver(options_, facts, plan, stop_);
    if (with_rdma) TRY(driver.LinkNetworkDriverHeaders());
    TRY(Step("prepare"));
    TRY(driver.Prepare());
    TRY(Step("unload"));
    TRY(TakeDown(options_));
    touched_ = true;
    TRY(files.ForgetDigest());
    TRY(host::DetachMounts(DriverRoot()));
    TRY(Step("install"));
    TRY(driver.Install());
    TRY(Step("load"));
    if (parameters.uses_firmware) TRY(SetFirmwareFolder(options_));
    TRY(LoadDriverModules(options_, parameters, with_rdma));
    TRY(Step("daemons"));
    TRY(StartDaemons(options_, stop_));
    return ShowRoot(files);
  }

  // The driver that is loaded is the one that is wanted: new programs, and nothing is unloaded.
  base::Status KeepLoaded(RunFiles& files) {
    base::LogInfo("The loaded driver is the one that is wanted; it is kept");
    TRY(Step("preflight"));
    TRY_ASSIGN(const auto facts, ObserveImage(options_));
    TRY_ASSIGN(auto plan, DecideInstall(options_, facts));
    plan.compile = false;
    plan.fetch_headers = false;
    plan.extract = plan.install_programs;
    DriverFiles driver(options_, facts, plan, stop_);
    TRY(Step("prepare"));
    TRY(driver.Prepare());
    TRY(host::DetachMounts(DriverRoot()));
    TRY(Step("install"));
    TRY(driver.Install());
    TRY(Step("daemons"));
    TRY(StopDaemons(options_.places));
    TRY(StartDaemons(options_, stop_));
    return ShowRoot(files);
  }

  base::Status ShowRoot(RunFiles& files) {
    TRY(Step("show"));
    TRY(host::ShowOwnRootAt(DriverRoot()));
    if (const auto selinux = host::HasSelinux(options_.places.sys); selinux && *selinux) {
      TRY(host::Relabel(DriverRoot() / "dev", host::kContainerFileLabel));
    }
    TRY(files.InstallKernelHook());
    return options_.config_digest.empty() ? base::Status()
                                          : files.StoreDigest(options_.config_digest);
  }

  // After a failure: a driver that was to be kept stays, what this container has loaded goes.
  void GiveUp(RunFiles& files, bool keep) {
    base::Status undone;
    if (!keep && touched_) {
      undone = TakeDown(options_);
      if (undone) undone = host::DetachMounts(DriverRoot());
    }
    if (undone) undone = files.Remove();
    if (!undone) base::LogWarning("Something of the driver stays on the node", undone.error());
  }

  // Told to end. Until nobody uses the driver it stays whole, daemons and root file system
  // included.
  base::Status Leave(RunFiles& files) {
    TRY(files.RemoveReadiness());
    TakeDownWhenUnused(options_);
    TRY(host::DetachMounts(DriverRoot()));
    TRY(files.Remove());
    base::LogInfo("The driver is down");
    return {};
  }

  [[nodiscard]] std::filesystem::path DriverRoot() const { return options_.places.run / "driver"; }

  const Options& options_;
  const io::StopToken& stop_;
  bool touched_ = false;  // the node
};

std::string Describe(const Options& options, const Facts& facts, const InstallPlan& plan) {
  return fmt::format(
      "driver           {}\nkernel           {}\nkernel modules   {}\nkernel headers   {}\n"
      "programs         {}\n",
      options.version, facts.kernel,
      plan.compile ? (plan.sign ? "compiled and signed" : "compiled") : "of the image",
      !plan.compile ? "not needed" : (plan.fetch_headers ? "installed first" : "of the image"),
      plan.install_programs ? "installed from the run file" : "of the image");
}

// The kubelet has mounted the file: another one in its place would not be read.
base::Status WriteInPlace(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::trunc);
  file << text << std::flush;
  return file ? base::Status() : base::Status(base::Fail(base::FromErrno(errno, "write " + path)));
}

}  // namespace

base::Status RunDriver(const Options& options, const io::StopToken& stop) {
  return Container(options, stop).Run();
}

base::Status BuildDriver(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto facts, ObserveImage(options));
  TRY_ASSIGN(auto plan, DecideInstall(options, facts));
  // A kernel that is to run later needs modules only.
  if (options.action == Action::kUpdate) {
    plan.install_programs = false;
    plan.extract = plan.compile;
  }
  DriverFiles driver(options, facts, plan, stop);
  TRY_ASSIGN(const bool with_rdma, HasDirectRdma(options));
  if (with_rdma) TRY(driver.LinkNetworkDriverHeaders());
  TRY(driver.Prepare());
  TRY(driver.Install());
  base::LogInfo("The driver's files are ready",
                {{"version", options.version}, {"kernel", facts.kernel}});
  return {};
}

base::Status Preflight(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto facts, ObserveImage(options));
  const auto look = [&] { return LookForKernelHeaders(options, facts, stop); };
  if (!options.report.empty()) {
    const std::string report = PreflightReport(options, facts, look);
    fmt::print("{}", report);
    return WriteInPlace(options.report, report);
  }
  TRY_ASSIGN(const auto plan, DecideInstall(options, facts));
  if (const auto had = plan.fetch_headers ? look() : base::Status(); !had) {
    if (had.error().reason == "KernelHeadersMissing") return had;
    base::LogWarning("It is not known whether the kernel's headers can be had", had.error());
  }
  fmt::print("{}", Describe(options, facts, plan));
  TRY_ASSIGN(const auto loaded, ReadDriverModules(options.places.sys));
  if (loaded.empty()) {
    fmt::print("loaded driver    none\n");
    return {};
  }
  TRY(RefuseUsedDriver(options.places));
  fmt::print("loaded driver    is not used, and would be taken out\n");
  return {};
}

}  // namespace pitcrew::node::driver_container

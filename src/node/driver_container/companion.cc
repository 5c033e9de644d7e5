#include "node/driver_container/companion.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "host/device_node.h"
#include "host/device_users.h"
#include "host/kernel.h"
#include "host/mounts.h"
#include "host/sysfs.h"
#include "host/uevent.h"
#include "node/driver_container/companion_sources.h"
#include "node/driver_container/facts.h"
#include "node/driver_container/folders.h"
#include "node/driver_container/kernel_packages.h"
#include "node/driver_container/kernel_side.h"
#include "node/driver_container/module_build.h"
#include "node/driver_container/plan.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

class CompanionContainer {
 public:
  CompanionContainer(const Companion& companion, const Options& options, const io::StopToken& stop)
      : companion_(companion),
        options_(options),
        stop_(stop),
        name_(base::ReplaceAll(std::string(companion.module), "-", "_")) {}

  base::Status Run() {
    const base::Status stayed = Stay();
    if (is_up_) Leave();
    return stop_.stopped() ? base::Status() : stayed;
  }

 private:
  // Until an error, or the stop's. The module holds the driver: another one comes only where
  // somebody has taken out both. While the driver stays it is not brought back, for then that one
  // is about to go.
  base::Status Stay() {
    TRY_ASSIGN(auto events, host::UeventReceiver::Create());
    std::optional<std::uint64_t> driver;
    while (true) {
      TRY_ASSIGN(driver, AwaitDriver(events, driver));
      TRY(BringUp());
      base::LogInfo("The module is up", {{"module", name_}});
    }
  }

  // Another one than `before`. Its container shows its root when all of its modules are loaded.
  base::Result<std::uint64_t> AwaitDriver(host::UeventReceiver& events,
                                          std::optional<std::uint64_t> before) {
    TRY_ASSIGN(auto mounts, host::MountWatcher::Create());
    const fs::path sources = options_.places.run / "driver/usr/src";
    bool said = before.has_value();
    while (true) {
      mounts.Take();
      TRY(events.Take());
      TRY_ASSIGN(const bool shown, host::IsDirectory(sources));
      const auto loaded = host::ReadModuleInstance("nvidia", options_.places.sys);
      if (loaded.is_unknown()) return base::Fail(*loaded.error());
      if (shown && loaded.is_present() && *loaded.value() != before) return *loaded.value();
      if (shown && is_up_) MakeNodesAgain();
      if (!std::exchange(said, true)) {
        base::LogInfo(
            "Waiting for the driver",
            {{"loaded", loaded.is_present()}, {"shown", shown}, {"folder", sources.string()}});
      }
      TRY(io::WaitReadable({mounts.fd(), events.fd()}, stop_));
    }
  }

  base::Status BringUp() {
    TRY_ASSIGN(const auto sources, FindCompanionSources(companion_, options_));
    const auto there = host::ReadModuleInstance(name_, options_.places.sys);
    if (there.is_unknown()) return base::Fail(*there.error());
    const auto version = host::ReadAttribute(options_.places.sys / "module" / name_ / "version");
    if (there.is_present() && IsOfSources(version.value_or(""), sources.version)) {
      base::LogInfo("The loaded module is the one of this image; it is kept",
                    {{"module", name_}, {"version", sources.version}});
    } else {
      TRY(Build(sources));
      if (there.is_present()) TRY(kernel_modules::Unload(name_, options_.places.sys));
      TRY_ASSIGN(const auto modules, OpenModules(options_));
      TRY(modules.Load(std::string(companion_.module)));
    }
    is_up_ = true;
    return MakeNodes();
  }

  base::Status Build(const CompanionSources& sources) {
    TRY_ASSIGN(const auto driver, FindDriverSources(options_));
    TRY_ASSIGN(const auto facts, ObserveImage(options_));
    TRY(CheckCompilation(options_, facts));
    if (!facts.has_kernel_headers) TRY(InstallKernelPackages(options_, facts, stop_));
    // Objects of a build that was killed, or that was for another driver, must not be in it.
    TRY_ASSIGN(const fs::path scratch, MakeTemporaryFolder());
    const base::Status built = Compile(facts, driver, sources, scratch / "sources");
    std::error_code error;
    fs::remove_all(scratch, error);
    return built;
  }

  base::Status Compile(const Facts& facts, const DriverSources& driver,
                       const CompanionSources& sources, const fs::path& folder) {
    base::LogInfo("A kernel module is compiled", {{"module", companion_.module},
                                                  {"version", sources.version},
                                                  {"kernel", facts.kernel},
                                                  {"against", driver.symbols.string()}});
    const ModuleBuild build(options_, facts, stop_);
    TRY(build.LinkKernelHeaders());
    TRY(CopyOver(sources.folder, folder));
    // Of their makefiles. The last one is kbuild's own, for symbols that other modules export.
    std::vector<std::string> words = {"KVER=" + facts.kernel,
                                      "NVIDIA_SRC_DIR=" + driver.headers.string(),
                                      "KBUILD_EXTRA_SYMBOLS=" + driver.symbols.string()};
    // In a checkout of GDRCopy these stand elsewhere than in its packages.
    TRY_ASSIGN(const bool has_scripts, host::IsDirectory(folder / "scripts"));
    if (has_scripts) words.push_back("CONF_SCRIPT_DIR=" + (folder / "scripts").string());
    const std::string module(companion_.module);
    TRY(build.Compile(folder, words, module));
    // This one alone: GDRCopy compiles a second module, which exports the driver's symbols anew.
    const std::vector<fs::path> modules = {folder / (module + ".ko")};
    TRY(build.Sign(modules));
    return build.Install(modules);
  }

  base::Result<std::vector<host::NamedDevice>> Devices() const {
    std::vector<host::NamedDevice> devices;
    if (companion_.device_class.empty()) {
      TRY_ASSIGN(const auto majors, host::ReadCharacterMajors(options_.places.proc));
      const auto own = majors.find(name_);
      if (own == majors.end()) {
        return base::Fail(base::Unavailable(
            "DeviceMissing", fmt::format("{} is loaded, and has no device in {}/devices", name_,
                                         options_.places.proc.string())));
      }
      devices.push_back({name_, {.major = own->second, .minor = 0}});
      return devices;
    }
    const fs::path folder = options_.places.sys / "class" / companion_.device_class;
    const auto names = host::ListFolder(folder);
    if (!names && names.error().code == base::Code::kNotFound) return devices;
    if (!names) return base::Fail(names.error());
    for (const auto& name : *names) {
      TRY_ASSIGN(const dev_t number, host::ReadDeviceNumber(folder / name / "dev"));
      devices.push_back({name, {.major = major(number), .minor = minor(number)}});
    }
    return devices;
  }

  // In this container, and in the driver's: from there the toolkit gives them to pods.
  base::Status MakeNodes() {
    TRY_ASSIGN(const auto devices, Devices());
    for (const fs::path& folder :
         {options_.places.root / "dev", options_.places.run / "driver/dev"}) {
      for (const auto& device : devices) {
        const fs::path node = folder / device.name;
        TRY(host::EnsureCharacterDevice(node, device.number));
        nodes_.insert(node);
      }
    }
    return {};
  }

  // A driver that was kept may be shown by a new container, which has none of them.
  void MakeNodesAgain() {
    if (!host::ReadModuleInstance(name_, options_.places.sys).is_present()) return;
    if (const auto made = MakeNodes(); !made) {
      base::LogWarning("The module's device nodes could not be made", made.error());
    }
  }

  void Leave() {
    if (const auto unloaded = kernel_modules::Unload(name_, options_.places.sys); !unloaded) {
      base::LogWarning("The module stays until the driver goes", unloaded.error());
      return;
    }
    std::error_code error;
    for (const auto& node : nodes_) fs::remove(node, error);
    base::LogInfo("The module is gone", {{"module", name_}});
  }

  const Companion& companion_;
  const Options& options_;
  const io::StopToken& stop_;
  const std::string name_;    // as the kernel writes it
  bool is_up_ = false;        // loaded, and this container's to take out
  std::set<fs::path> nodes_;  // that it has made
};

}  // namespace

base::Status RunCompanion(const Companion& companion, const Options& options,
                          const io::StopToken& stop) {
  return CompanionContainer(companion, options, stop).Run();
}

}  // namespace pitcrew::node::driver_container

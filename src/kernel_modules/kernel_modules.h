// Loading and unloading kernel modules as modprobe and rmmod do it, by libkmod: with the
// dependencies of modules.dep, and the aliases, options and blacklists of modprobe.d.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "host/root.h"

struct kmod_ctx;

namespace pitcrew::kernel_modules {

// The modules of one kernel. For one thread at a time.
class Modules {
 public:
  // `host` is the node's root as this process sees it, "/host" in a pod: modules come from
  // lib/modules/<release> below it, configuration from its modprobe.d folders. kNotFound
  // "NoKernelModules" when that kernel has no folder there, or depmod has not been run over it.
  static base::Result<Modules> Open(const host::Root& host, std::string_view release);

  // Loads a module, or the modules of an alias, with what they depend on. Success too when they are
  // loaded already (with whatever parameters) or built in. Parameters are those of modprobe.d.
  // Needs CAP_SYS_MODULE.
  //
  // kNotFound "NoSuchModule"; kUnsupported "ModuleBlacklisted" for an alias, and
  // "ModuleHasInstallCommand" where modprobe.d says that a shell command loads it: none is run;
  // else "ModuleNotLoaded" names the module that the kernel refused, its file and parameters, and
  // what to do.
  base::Status Load(const std::string& name) const;

  // The version that the file of a module tells, as modinfo shows it; "" when it tells none. Absent
  // when this kernel has no such module in a file of its own.
  [[nodiscard]] base::Observed<std::string> ReadFileVersion(const std::string& name) const;

 private:
  struct Close {
    void operator()(kmod_ctx* context) const;
  };
  Modules(std::unique_ptr<kmod_ctx, Close> context, std::filesystem::path folder)
      : context_(std::move(context)), folder_(std::move(folder)) {}

  std::unique_ptr<kmod_ctx, Close> context_;
  std::filesystem::path folder_;
};

// Takes a module out of the kernel. Success too when it is not loaded. kUnavailable "ModuleInUse"
// names the modules that hold it, or tells how many uses there are. Needs CAP_SYS_MODULE.
base::Status Unload(const std::string& name, const std::filesystem::path& sys = "/sys");

// The loaded modules that use this one, sorted; empty when it is not loaded.
base::Result<std::vector<std::string>> ReadHolders(std::string_view name,
                                                   const std::filesystem::path& sys = "/sys");

}  // namespace pitcrew::kernel_modules

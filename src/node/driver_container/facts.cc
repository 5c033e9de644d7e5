#include "node/driver_container/facts.h"

#include <fmt/format.h>

#include "host/driver_root.h"
#include "host/kernel.h"
#include "host/process.h"
#include "kernel_modules/kernel_modules.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

bool HasProgram(const host::Root& root, std::string_view name) {
  return host::FindStandardProgram(root, name).has_value();
}

PackageTool FindPackageTool(const host::Root& root) {
  if (HasProgram(root, "apt-get")) return PackageTool::kApt;
  return HasProgram(root, "dnf") ? PackageTool::kDnf : PackageTool::kNone;
}

base::Status ObserveRunFiles(const Options& options, Facts& facts) {
  const auto names = host::ListFolder(options.places.drivers);
  if (!names && names.error().code == base::Code::kNotFound) return {};
  if (!names) return base::Fail(names.error());
  const auto wanted = fmt::format("NVIDIA-Linux-{}-{}.run", options.architecture, options.version);
  for (const auto& name : *names) {
    if (!name.ends_with(".run")) continue;
    if (name != wanted) {
      facts.other_run_files.push_back(name);
      continue;
    }
    const fs::path file = options.places.drivers / name;
    std::error_code error;
    facts.run_file_bytes = fs::file_size(file, error);
    if (error) return base::Fail(base::FromErrno(error.value(), "look at " + file.string()));
    facts.run_file = base::Observed<fs::path>::Present(file);
  }
  return {};
}

base::Observed<std::string> DriverModuleVersion(const host::Root& root, const std::string& kernel) {
  const auto modules = kernel_modules::Modules::Open(root, kernel);
  if (!modules) return base::Observed<std::string>::From(base::Fail(modules.error()));
  return modules->ReadFileVersion("nvidia");
}

base::Status ObserveModules(const host::Root& root, Facts& facts) {
  facts.module_version = DriverModuleVersion(root, facts.kernel);
  if (facts.module_version.is_unknown()) return base::Fail(*facts.module_version.error());
  const auto kernels = host::ListFolder(root.At("/lib/modules"));
  if (!kernels) return {};
  for (const auto& kernel : *kernels) {
    if (DriverModuleVersion(root, kernel).is_present())
      facts.kernels_with_modules.push_back(kernel);
  }
  return {};
}

}  // namespace

fs::path IncompleteMarker(const Places& places) {
  return places.root / "var/lib/nvidia-driver/incomplete";
}

std::optional<fs::path> FindKernelHeaders(const host::Root& root, const std::string& kernel) {
  for (const auto& folder : {"/lib/modules/" + kernel + "/build", "/usr/src/kernels/" + kernel,
                             "/usr/src/linux-headers-" + kernel}) {
    if (root.Resolve(folder + "/Makefile")) return folder;
  }
  return std::nullopt;
}

base::Result<Facts> ObserveImage(const Options& options) {
  const host::Root root(options.places.root);
  Facts facts;
  TRY_ASSIGN(const std::string running, host::ReadKernelRelease(options.places.proc));
  facts.kernel = options.kernel.empty() ? running : options.kernel;
  facts.kernel_runs = facts.kernel == running;
  if (auto system = host::ReadOsRelease(root.At("/etc/os-release"))) facts.system = *system;
  facts.packages = FindPackageTool(root);
  TRY(ObserveRunFiles(options, facts));
  TRY(ObserveModules(root, facts));
  facts.has_programs = host::FindProgram(root, host::kSmiProgram).has_value() &&
                       host::FindLibrary(root, fmt::format("libnvidia-ml.so.{}", options.version));
  TRY_ASSIGN(const bool incomplete, host::Exists(IncompleteMarker(options.places)));
  if (incomplete) {
    facts.has_programs = false;
    if (facts.run_file.is_present()) facts.module_version = base::Observed<std::string>::Missing();
  }
  facts.has_kernel_headers = FindKernelHeaders(root, facts.kernel).has_value();
  const auto own_modules =
      host::Exists(root.At("/lib/modules/" + facts.kernel) / "modules.builtin");
  facts.has_kernel_modules = own_modules && *own_modules;
  facts.has_compiler =
      HasProgram(root, "make") && (HasProgram(root, "cc") || HasProgram(root, "gcc"));
  facts.policy = host::ReadModulePolicy(options.places.sys);
  std::error_code error;
  const auto space = fs::space(options.places.root, error);
  if (!error) facts.free_bytes = base::Observed<std::uint64_t>::Present(space.available);
  return facts;
}

}  // namespace pitcrew::node::driver_container

#include "node/driver_container/driver_files.h"

#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/driver_container/folders.h"
#include "node/driver_container/kernel_packages.h"
#include "node/driver_container/programs.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kFirstThatLoadsByItself = 550;

}  // namespace

std::vector<std::string> InstallerArguments(const fs::path& dummy, unsigned branch) {
  const std::string nowhere = dummy.string();
  std::vector<std::string> words = {"--silent",
                                    "--ui=none",
                                    "--no-drm",
                                    "--no-nouveau-check",
                                    "--no-nvidia-modprobe",
                                    "--no-rpms",
                                    "--no-backup",
                                    "--no-check-for-alternate-installs",
                                    "--no-libglx-indirect",
                                    "--no-install-libglvnd",
                                    "--x-prefix=" + nowhere,
                                    "--x-module-path=" + nowhere,
                                    "--x-library-path=" + nowhere,
                                    "--x-sysconfig-path=" + nowhere,
                                    "--no-kernel-module"};
  if (branch >= kFirstThatLoadsByItself) words.emplace_back("--skip-module-load");
  return words;
}

DriverFiles::~DriverFiles() {
  std::error_code error;
  if (!unpacked_.empty()) fs::remove_all(unpacked_.parent_path(), error);
}

base::Status DriverFiles::LinkNetworkDriverHeaders() {
  const fs::path headers = options_.places.mofed / "usr/src/ofa_kernel";
  TRY_ASSIGN(const bool there, host::IsDirectory(headers));
  if (!there) return {};
  TRY(Link(headers, options_.places.root / "usr/src/ofa_kernel"));
  const fs::path of_kernel = headers / options_.architecture / facts_.kernel;
  TRY_ASSIGN(const bool has_kernel, host::IsDirectory(of_kernel));
  return has_kernel ? Link(of_kernel, headers / facts_.kernel) : base::Status();
}

base::Status DriverFiles::Prepare() {
  if (plan_.fetch_headers) TRY(InstallKernelPackages(options_, facts_, stop_));
  if (plan_.compile) TRY(build_.LinkKernelHeaders());
  if (plan_.extract) TRY(Extract());
  if (plan_.compile) TRY(Compile());
  return {};
}

base::Status DriverFiles::Extract() {
  TRY_ASSIGN(const fs::path folder, MakeTemporaryFolder());
  unpacked_ = folder / "driver";
  TRY(RunImageProgram(
      {.purpose = "unpack the driver's run file",
       .words = {"sh", facts_.run_file.value()->string(), "-x", "--target", unpacked_.string()},
       .folder = folder.string()},
      stop_));
  return {};
}

base::Status DriverFiles::Compile() {
  std::optional<std::string> recommended;
  if (options_.module_type == ModuleType::kAuto) {
    auto answer = RunImageProgram({.purpose = "ask which kernel modules these GPUs want",
                                   .words = {(unpacked_ / "nvidia-installer").string(),
                                             "--print-recommended-kernel-module-type"},
                                   .folder = unpacked_.string(),
                                   .reads_output = true},
                                  stop_);
    if (answer) {
      recommended = base::Trim(*answer);
    } else {
      base::LogWarning("The installer recommends no kind of kernel modules", answer.error());
    }
  }
  const auto type = ModuleSourceFolder(options_.module_type, recommended, options_.branch());
  base::LogInfo("Kernel modules are compiled", {{"kernel", facts_.kernel}, {"from", type}});
  // There other drivers look for it that are compiled against this one (GPUDirect Storage).
  const fs::path sources = options_.places.root / "usr/src" / ("nvidia-" + options_.version) / type;
  std::error_code error;
  fs::remove_all(sources, error);
  TRY(MakeFolders(sources));
  TRY(CopyOver(unpacked_ / type, sources));
  TRY_ASSIGN(compiled_modules_,
             build_.Compile(sources, {"KERNEL_UNAME=" + facts_.kernel, "modules"}, "nvidia"));
  return build_.Sign(compiled_modules_);
}

base::Status DriverFiles::Install() {
  if (!plan_.install_programs && !plan_.compile) return {};
  const fs::path marker = IncompleteMarker(options_.places);
  TRY(base::WriteFileAtomically(marker, options_.version + "\n"));
  if (plan_.install_programs) TRY(InstallPrograms());
  if (plan_.compile) TRY(build_.Install(compiled_modules_));
  std::error_code error;
  fs::remove(marker, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "remove the marker")))
               : base::Status();
}

base::Status DriverFiles::InstallPrograms() {
  std::vector<std::string> words = {(unpacked_ / "nvidia-installer").string()};
  const auto arguments = InstallerArguments(unpacked_.parent_path() / "nowhere", options_.branch());
  words.insert(words.end(), arguments.begin(), arguments.end());
  TRY(RunImageProgram(
      {.purpose = "install the driver's programs", .words = words, .folder = unpacked_.string()},
      stop_));
  return {};
}

}  // namespace pitcrew::node::driver_container

#include "node/driver_container/driver_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/driver_container/packages.h"
#include "node/driver_container/programs.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kFirstThatLoadsByItself = 550;

base::Status MakeFolders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "make " + folder.string())))
               : base::Status();
}

base::Result<fs::path> MakeTemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "nvidia-driver-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return base::Fail(base::FromErrno(errno, "make " + name));
  return fs::path(name);
}

base::Status CopyOver(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy(from, to,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing |
               fs::copy_options::copy_symlinks,
           error);
  if (!error) return {};
  return base::Fail(base::FromErrno(error.value(),
                                    fmt::format("copy {} to {}", from.string(), to.string())));
}

base::Result<std::vector<fs::path>> FilesThatEndWith(const fs::path& folder,
                                                     std::string_view ending) {
  TRY_ASSIGN(const auto names, host::ListFolder(folder));
  std::vector<fs::path> files;
  for (const auto& name : names) {
    if (name.ends_with(ending)) files.push_back(folder / name);
  }
  return files;
}

// A link that leads there already is left alone.
base::Status Link(const fs::path& target, const fs::path& link) {
  std::error_code error;
  if (fs::is_symlink(link, error) && fs::read_symlink(link, error) == target) return {};
  TRY(MakeFolders(link.parent_path()));
  fs::remove(link, error);
  fs::create_symlink(target, link, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "link " + link.string())))
               : base::Status();
}

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

fs::path DriverFiles::ModulesFolder() const {
  return options_.places.root / "lib/modules" / facts_.kernel;
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
  if (plan_.fetch_headers) TRY(FetchHeaders());
  if (plan_.extract) TRY(Extract());
  if (plan_.compile) TRY(Compile());
  return {};
}

base::Status DriverFiles::FetchHeaders() {
  for (const auto& step : HeaderSteps(options_, facts_)) {
    base::Status done;
    for (const auto& words : step.attempts) {
      auto run = RunImageProgram({.purpose = step.purpose, .words = words, .folder = ""}, stop_);
      done = run ? base::Status() : base::Status(base::Fail(run.error()));
      if (done || stop_.stopped()) break;
    }
    if (!done && step.may_fail) base::LogWarning("A step of the packages has failed", done.error());
    if (!done && !step.may_fail) {
      return base::Fail(base::Error{
          base::Code::kUnavailable, "KernelHeadersMissing",
          fmt::format("cannot {} of {}: {}. Name repositories that have them "
                      "(driver.repoConfig), or use an image with modules for this kernel",
                      step.purpose, facts_.kernel, done.error().message)});
    }
  }
  return FetchKernelModules();
}

base::Status DriverFiles::FetchKernelModules() {
  const auto packages = ModulePackages(facts_);
  if (packages.empty()) return {};
  TRY_ASSIGN(const fs::path folder, MakeTemporaryFolder());
  const auto fetch = [&]() -> base::Status {
    std::vector<std::string> words = {"apt-get", "-qq", "download"};
    words.insert(words.end(), packages.begin(), packages.end());
    TRY(RunImageProgram(
        {.purpose = "download the kernel's modules", .words = words, .folder = folder.string()},
        stop_));
    TRY_ASSIGN(const auto archives, FilesThatEndWith(folder, ".deb"));
    for (const auto& archive : archives) {
      TRY(RunImageProgram({.purpose = "unpack the kernel's modules",
                           .words = {"dpkg-deb", "--extract", archive.string(), "unpacked"},
                           .folder = folder.string()},
                          stop_));
    }
    for (const char* place : {"lib/modules", "usr/lib/modules"}) {
      const fs::path modules = folder / "unpacked" / place / facts_.kernel;
      TRY_ASSIGN(const bool there, host::IsDirectory(modules));
      if (there) TRY(CopyOver(modules, ModulesFolder()));
    }
    return {};
  };
  const base::Status fetched = fetch();
  std::error_code error;
  fs::remove_all(folder, error);
  // Those that the driver needs may be loaded, or part of the kernel.
  if (!fetched) base::LogWarning("The kernel's own modules could not be had", fetched.error());
  return {};
}

base::Status DriverFiles::Extract() {
  TRY_ASSIGN(const fs::path folder, MakeTemporaryFolder());
  unpacked_ = folder / "driver";
  TRY(RunImageProgram({.purpose = "unpack the driver's run file",
                       .words = {"sh", facts_.run_file.value()->string(), "-x", "--target",
                                 unpacked_.string()},
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
  const auto threads = options_.threads > 0
                           ? options_.threads
                           : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  TRY(RunImageProgram({.purpose = "compile the kernel modules",
                       .words = {"make", "-C", sources.string(), fmt::format("-j{}", threads),
                                 "KERNEL_UNAME=" + facts_.kernel, "modules"},
                       .folder = ""},
                      stop_));
  TRY_ASSIGN(compiled_modules_, FilesThatEndWith(sources, ".ko"));
  if (std::ranges::none_of(compiled_modules_,
                           [](const auto& file) { return file.filename() == "nvidia.ko"; })) {
    return base::Fail(base::Internal(
        "ModulesNotBuilt", fmt::format("compiling has made no nvidia.ko in {}", sources.string())));
  }
  return plan_.sign ? Sign(compiled_modules_) : base::Status();
}

// By the program that comes with the kernel's headers: the form of signatures is the kernel's own.
base::Status DriverFiles::Sign(const std::vector<fs::path>& modules) {
  const fs::path program = ModulesFolder() / "build/scripts/sign-file";
  for (const auto& module : modules) {
    TRY(RunImageProgram({.purpose = "sign a kernel module",
                         .words = {program.string(), "sha512", options_.signing_key,
                                   options_.signing_certificate, module.string()},
                         .folder = ""},
                        stop_));
  }
  return {};
}

base::Status DriverFiles::Install() {
  if (!plan_.install_programs && !plan_.compile) return {};
  const fs::path marker = IncompleteMarker(options_.places);
  TRY(base::WriteFileAtomically(marker, options_.version + "\n"));
  if (plan_.install_programs) TRY(InstallPrograms());
  if (plan_.compile) TRY(InstallModules());
  std::error_code error;
  fs::remove(marker, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "remove the marker")))
               : base::Status();
}

base::Status DriverFiles::InstallPrograms() {
  std::vector<std::string> words = {(unpacked_ / "nvidia-installer").string()};
  const auto arguments =
      InstallerArguments(unpacked_.parent_path() / "nowhere", options_.branch());
  words.insert(words.end(), arguments.begin(), arguments.end());
  TRY(RunImageProgram({.purpose = "install the driver's programs",
                       .words = words,
                       .folder = unpacked_.string()},
                      stop_));
  return {};
}

base::Status DriverFiles::InstallModules() {
  const fs::path folder = ModulesFolder() / "kernel/drivers/video";
  TRY(MakeFolders(folder));
  for (const auto& module : compiled_modules_) TRY(CopyOver(module, folder / module.filename()));
  TRY(RunImageProgram(
      {.purpose = "index the kernel modules", .words = {"depmod", facts_.kernel}, .folder = ""},
      stop_));
  return {};
}

}  // namespace pitcrew::node::driver_container

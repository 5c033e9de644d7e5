#include "node/driver_container/driver_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/process.h"
#include "host/root.h"
#include "node/driver_container/folders.h"
#include "node/driver_container/kernel_packages.h"
#include "node/driver_container/packages.h"
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
  if (plan_.fetch_headers) TRY(InstallKernelPackages(options_, facts_, stop_));
  if (plan_.compile) TRY(LinkKernelHeaders());
  if (plan_.extract) TRY(Extract());
  if (plan_.compile) TRY(Compile());
  return {};
}

// The driver's sources look for them in one place only.
base::Status DriverFiles::LinkKernelHeaders() {
  const auto headers = FindKernelHeaders(host::Root(options_.places.root), facts_.kernel);
  const fs::path link = ModulesFolder() / "build";
  if (!headers || *headers == fs::path("/lib/modules") / facts_.kernel / "build") return {};
  return Link(*headers, link);
}

// A compiler other than the kernel's own may not know the options that the kernel is compiled with.
std::optional<std::string> DriverFiles::FindKernelCompiler() {
  const auto configuration = base::ReadFile(ModulesFolder() / "build/.config");
  if (!configuration) return std::nullopt;
  const std::string name = KernelCompiler(*configuration);
  if (name.empty()) return std::nullopt;
  const host::Root root(options_.places.root);
  if (!host::FindStandardProgram(root, name)) InstallCompiler(options_, facts_, name, stop_);
  if (host::FindStandardProgram(root, name)) return name;
  base::LogWarning("This image lacks the compiler that the kernel was made with; its own is tried",
                   {{"lacks", name}});
  return std::nullopt;
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
  const auto threads = options_.threads > 0
                           ? options_.threads
                           : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  std::vector<std::string> words = {"make",
                                    "-C",
                                    sources.string(),
                                    fmt::format("-j{}", threads),
                                    "KERNEL_UNAME=" + facts_.kernel,
                                    "modules"};
  if (const auto compiler = FindKernelCompiler()) words.push_back("CC=" + *compiler);
  TRY(RunImageProgram({.purpose = "compile the kernel modules", .words = words, .folder = ""},
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
  const auto arguments = InstallerArguments(unpacked_.parent_path() / "nowhere", options_.branch());
  words.insert(words.end(), arguments.begin(), arguments.end());
  TRY(RunImageProgram(
      {.purpose = "install the driver's programs", .words = words, .folder = unpacked_.string()},
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

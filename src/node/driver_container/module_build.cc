#include "node/driver_container/module_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "host/process.h"
#include "host/root.h"
#include "node/driver_container/folders.h"
#include "node/driver_container/kernel_packages.h"
#include "node/driver_container/packages.h"
#include "node/driver_container/programs.h"

namespace pitcrew::node::driver_container {

namespace fs = std::filesystem;

fs::path ModuleBuild::ModulesFolder() const {
  return options_.places.root / "lib/modules" / facts_.kernel;
}

base::Status ModuleBuild::LinkKernelHeaders() const {
  const auto headers = FindKernelHeaders(host::Root(options_.places.root), facts_.kernel);
  const fs::path link = ModulesFolder() / "build";
  if (!headers || *headers == fs::path("/lib/modules") / facts_.kernel / "build") return {};
  return Link(*headers, link);
}

// A compiler other than the kernel's own may not know the options that the kernel is compiled with.
std::optional<std::string> ModuleBuild::FindKernelCompiler() const {
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

base::Result<std::vector<fs::path>> ModuleBuild::Compile(const fs::path& sources,
                                                         const std::vector<std::string>& words,
                                                         const std::string& module) const {
  const auto threads = options_.threads > 0
                           ? options_.threads
                           : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  std::vector<std::string> all = {"make", "-C", sources.string(), fmt::format("-j{}", threads)};
  all.insert(all.end(), words.begin(), words.end());
  if (const auto compiler = FindKernelCompiler()) all.push_back("CC=" + *compiler);
  // Some ask for the folder by $(PWD), which `make -C` does not set.
  TRY(RunImageProgram({.purpose = "compile the kernel modules",
                       .words = all,
                       .folder = "",
                       .variables = {{"PWD", sources.string()}}},
                      stop_));
  TRY_ASSIGN(auto modules, FilesThatEndWith(sources, ".ko"));
  if (std::ranges::none_of(modules,
                           [&](const auto& file) { return file.filename() == module + ".ko"; })) {
    return base::Fail(
        base::Internal("ModulesNotBuilt",
                       fmt::format("compiling has made no {}.ko in {}", module, sources.string())));
  }
  return modules;
}

// By the program that comes with the kernel's headers: the form of signatures is the kernel's own.
base::Status ModuleBuild::Sign(const std::vector<fs::path>& modules) const {
  if (options_.signing_key.empty()) return {};
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

base::Status ModuleBuild::Install(const std::vector<fs::path>& modules) const {
  const fs::path folder = ModulesFolder() / "kernel/drivers/video";
  TRY(MakeFolders(folder));
  for (const auto& module : modules) TRY(CopyOver(module, folder / module.filename()));
  TRY(RunImageProgram(
      {.purpose = "index the kernel modules", .words = {"depmod", facts_.kernel}, .folder = ""},
      stop_));
  return {};
}

}  // namespace pitcrew::node::driver_container

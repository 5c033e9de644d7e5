#include "kernel_modules/kernel_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <libkmod.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "host/kernel.h"

namespace pitcrew::kernel_modules {
namespace {

// In the order of modprobe.d(5): what comes first wins.
constexpr std::array kConfigFolders = {"/etc/modprobe.d", "/run/modprobe.d",
                                       "/usr/local/lib/modprobe.d", "/lib/modprobe.d"};

struct FreeModules {
  void operator()(kmod_list* list) const { kmod_module_unref_list(list); }
};
using ModuleList = std::unique_ptr<kmod_list, FreeModules>;

struct FreeModule {
  void operator()(kmod_module* module) const { kmod_module_unref(module); }
};
using Module = std::unique_ptr<kmod_module, FreeModule>;

void LogMessage(void* /*data*/, int /*priority*/, const char* /*file*/, int /*line*/,
                const char* /*function*/, const char* format, va_list arguments) {
  std::array<char, 1024> text;
  std::vsnprintf(text.data(), text.size(), format, arguments);
  base::LogDebug("libkmod", {{"message", std::string(base::Trim(text.data()))}});
}

std::string KernelName(std::string_view name) {
  return base::ReplaceAll(std::string(name), "-", "_");
}

// One module on the way to another.
struct Step {
  std::string module;          // as the kernel calls it: '_' for '-'
  std::filesystem::path file;  // as this process sees it
  std::string parameters;      // those of modprobe.d: "a=1 b=2"
};

// What libkmod calls back while it goes through the modules of one request. Its callback for steps
// takes no argument, hence one record a thread.
struct Record {
  std::vector<Step> steps;
  std::string install_command;
};
thread_local Record* record = nullptr;

void NoteStep(kmod_module* module, bool install, const char* options) {
  const char* path = kmod_module_get_path(module);
  if (record == nullptr || install || path == nullptr) return;
  record->steps.push_back(
      {.module = kmod_module_get_name(module),
       .file = path,
       .parameters = std::string(base::Trim(options == nullptr ? "" : options))});
}

int RefuseCommand(kmod_module* module, const char* command, void* data) {
  static_cast<Record*>(data)->install_command =
      fmt::format("{}: {}", kmod_module_get_name(module), command);
  return -ENOTSUP;
}

std::string_view AdviceFor(int error_number) {
  switch (error_number) {
    case ENOKEY:
    case EKEYREJECTED:
      return "it is not signed with a key that this kernel trusts (Secure Boot): enrol the key, or "
             "install a signed module";
    case EPERM:
      return "this process may not load modules: it needs CAP_SYS_MODULE, and a kernel that is not "
             "locked down";
    case ENOSYS:
      return "this kernel takes no modules";
    case ENOEXEC:
      return "it was not built for this kernel: build it for the one that runs";
    case ENODEV:
      return "it has found no device that it drives";
    case ENOENT:
      return "it misses a symbol or does not know a parameter; the kernel's log names it";
    default:
      return "the kernel's log (dmesg) may tell more";
  }
}

// Not as errno has it: a missing symbol is no evidence that the module does not exist.
base::Code CodeOf(int error_number) {
  switch (error_number) {
    case EPERM:
      return base::Code::kDenied;
    case ENODEV:
    case EBUSY:
    case EAGAIN:
      return base::Code::kUnavailable;
    case ENOKEY:
    case EKEYREJECTED:
    case ENOEXEC:
    case ENOSYS:
      return base::Code::kUnsupported;
    default:
      return base::Code::kInternal;
  }
}

base::Error NotLoaded(const std::string& name, const Record& seen, int error_number) {
  if (!seen.install_command.empty()) {
    return {base::Code::kUnsupported, "ModuleHasInstallCommand",
            fmt::format("the node's modprobe.d loads {} by a shell command, which is not run here; "
                        "load {} on the node, or remove the line",
                        seen.install_command, name)};
  }
  std::string what = "load kernel module " + name;
  if (!seen.steps.empty()) {
    const Step& last = seen.steps.back();
    what = fmt::format("load kernel module {} ({})", last.module, last.file.string());
    if (!last.parameters.empty()) what += " with " + last.parameters;
  }
  return {
      CodeOf(error_number), "ModuleNotLoaded",
      fmt::format("{}; {}", base::FromErrno(error_number, what).message, AdviceFor(error_number))};
}

}  // namespace

void Modules::Close::operator()(kmod_ctx* context) const { kmod_unref(context); }

base::Result<Modules> Modules::Open(const host::Root& host, std::string_view release) {
  const auto folder = host.At(fmt::format("/lib/modules/{}", release));
  TRY_ASSIGN(const bool indexed, host::Exists(folder / "modules.dep.bin"));
  if (!indexed) {
    return base::Fail(base::NotFound(
        "NoKernelModules",
        fmt::format("{} has no index of kernel modules (modules.dep.bin): install the modules of "
                    "kernel {}, or run depmod over them",
                    folder.string(), release)));
  }
  std::vector<std::string> folders;
  std::vector<const char*> pointers;
  for (const char* folder_of_config : kConfigFolders) folders.push_back(host.At(folder_of_config));
  for (const auto& path : folders) pointers.push_back(path.c_str());
  pointers.push_back(nullptr);
  std::unique_ptr<kmod_ctx, Close> context(kmod_new(folder.c_str(), pointers.data()));
  if (context == nullptr) {
    return base::Fail(base::FromErrno(errno == 0 ? EIO : errno,
                                      "read the module configuration of " + host.path().string()));
  }
  kmod_set_log_fn(context.get(), LogMessage, nullptr);
  return Modules(std::move(context), folder);
}

base::Status Modules::Load(const std::string& name) const {
  kmod_list* found = nullptr;
  const int looked = kmod_module_new_from_lookup(context_.get(), name.c_str(), &found);
  const ModuleList modules(found);
  if (looked < 0) {
    return base::Fail(base::FromErrno(-looked, "look for kernel module " + name));
  }
  if (modules == nullptr) {
    return base::Fail(
        base::NotFound("NoSuchModule", fmt::format("there is no kernel module {} in {}; install "
                                                   "it, or build it for this kernel",
                                                   name, folder_.string())));
  }
  Record seen;
  record = &seen;
  int result = 0;
  for (const kmod_list* entry = modules.get(); entry != nullptr && result == 0;
       entry = kmod_list_next(modules.get(), entry)) {
    const Module module(kmod_module_get_module(entry));
    result = kmod_module_probe_insert_module(module.get(), KMOD_PROBE_APPLY_BLACKLIST_ALIAS_ONLY,
                                             nullptr, RefuseCommand, &seen, NoteStep);
  }
  record = nullptr;
  if (result > 0) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "ModuleBlacklisted",
        fmt::format("the node's modprobe.d blacklists the kernel module that {} stands for",
                    name)});
  }
  if (result < 0) return base::Fail(NotLoaded(name, seen, -result));
  for (const Step& step : seen.steps) {
    base::LogInfo("Kernel module loaded",
                  {{"module", step.module}, {"parameters", step.parameters}});
  }
  return {};
}

base::Observed<std::string> Modules::ReadFileVersion(const std::string& name) const {
  using Version = base::Observed<std::string>;
  kmod_list* found = nullptr;
  const int looked = kmod_module_new_from_lookup(context_.get(), name.c_str(), &found);
  const ModuleList modules(found);
  if (looked < 0) {
    return Version::Unknown(base::FromErrno(-looked, "look for kernel module " + name));
  }
  if (modules == nullptr) return Version::Missing();
  const Module module(kmod_module_get_module(modules.get()));
  if (kmod_module_get_path(module.get()) == nullptr) return Version::Missing();
  kmod_list* entries = nullptr;
  const int read = kmod_module_get_info(module.get(), &entries);
  if (read < 0) {
    return Version::Unknown(
        base::FromErrno(-read, fmt::format("read {}", kmod_module_get_path(module.get()))));
  }
  std::string version;
  for (const kmod_list* entry = entries; entry != nullptr; entry = kmod_list_next(entries, entry)) {
    if (std::string_view(kmod_module_info_get_key(entry)) == "version") {
      version = kmod_module_info_get_value(entry);
    }
  }
  kmod_module_info_free_list(entries);
  return Version::Present(version);
}

base::Status Unload(const std::string& name, const std::filesystem::path& sys) {
  TRY_ASSIGN(const bool loaded, host::Exists(sys / "module" / KernelName(name)));
  if (!loaded) return {};
  const std::unique_ptr<kmod_ctx, void (*)(kmod_ctx*)> context(
      kmod_new(nullptr, nullptr), [](kmod_ctx* each) { kmod_unref(each); });
  kmod_module* made = nullptr;
  if (context == nullptr || kmod_module_new_from_name(context.get(), name.c_str(), &made) < 0) {
    return base::Fail(base::Internal("ModuleNotUnloaded", "libkmod cannot be used"));
  }
  const Module module(made);
  const int removed =
      kmod_module_remove_module(module.get(), KMOD_REMOVE_NOWAIT | KMOD_REMOVE_NOLOG);
  if (removed == 0 || removed == -ENOENT) return {};
  if (removed != -EAGAIN && removed != -EBUSY) {
    return base::Fail(base::FromErrno(-removed, "unload kernel module " + name));
  }
  const auto holders = ReadHolders(name, sys);
  std::string why = "something has it open";
  if (holders && !holders->empty()) {
    why = fmt::format("held by {}", fmt::join(*holders, ", "));
  } else if (const auto uses = host::ReadModuleReferences(name, sys); uses.is_present()) {
    why = fmt::format("{} uses, by programs that have its devices open", *uses.value());
  }
  return base::Fail(base::Unavailable(
      "ModuleInUse", fmt::format("kernel module {} is still in use: {}", name, why)));
}

base::Result<std::vector<std::string>> ReadHolders(std::string_view name,
                                                   const std::filesystem::path& sys) {
  auto holders = host::ListFolder(sys / "module" / KernelName(name) / "holders");
  if (!holders && holders.error().code == base::Code::kNotFound) return std::vector<std::string>();
  return holders;
}

}  // namespace pitcrew::kernel_modules

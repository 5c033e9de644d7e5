// nvidia-ctk: the administrator's tool (container-toolkit.md 5).
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/command_line.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/name.h"
#include "cdi/registry.h"
#include "node/toolkit/command.h"
#include "node/toolkit/containerd.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/engine_process.h"
#include "node/toolkit/options.h"
#include "nvml/nvml.h"

namespace pitcrew::node::toolkit {
namespace {

using Text = std::optional<std::string>;
using Switch = std::optional<bool>;
using List = std::optional<std::vector<std::string>>;

int Report(const base::Status& status) {
  if (status) return 0;
  base::LogError("nvidia-ctk failed", status.error());
  return status.error().code == base::Code::kInvalid ? kUsage : kFailure;
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// --- cdi generate
// ---------------------------------------------------------------------------------

struct GenerateFlags {
  Text output, format, mode, driver_root, dev_root, hook_path, vendor, device_class;
  List strategies, disabled_hooks, device_ids;
  Switch no_all_device;
};

void AddFlags(base::CommandLine& line, GenerateFlags& to) {
  line.Add({"output", "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "file; standard output when empty"},
           &to.output);
  line.Add({"format", "NVIDIA_CTK_CDI_GENERATE_OUTPUT_FORMAT", "yaml or json"}, &to.format);
  line.Add({"mode,discovery-mode", "NVIDIA_CTK_CDI_GENERATE_MODE", "auto, nvml or management"},
           &to.mode);
  line.Add({"driver-root", "NVIDIA_CTK_DRIVER_ROOT", "root of the driver"}, &to.driver_root);
  line.Add({"dev-root", "NVIDIA_CTK_DEV_ROOT", "root of /dev"}, &to.dev_root);
  line.Add({"nvidia-cdi-hook-path,nvidia-ctk-path", "NVIDIA_CTK_CDI_HOOK_PATH", "the hook program"},
           &to.hook_path);
  line.Add({"vendor,cdi-vendor", "NVIDIA_CTK_CDI_GENERATE_VENDOR", "vendor of the kind"},
           &to.vendor);
  line.Add({"class,cdi-class", "NVIDIA_CTK_CDI_GENERATE_CLASS", "class of the kind"},
           &to.device_class);
  line.Add({"device-name-strategy", "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES",
            "index, uuid, type-index"},
           &to.strategies);
  line.Add({"disable-hook,disable-hooks", "NVIDIA_CTK_CDI_GENERATE_DISABLED_HOOKS",
            "hooks that are left out; all"},
           &to.disabled_hooks);
  line.Add({"no-all-device", "NVIDIA_CTK_CDI_GENERATE_NO_ALL_DEVICE", "no merged device"},
           &to.no_all_device);
}

base::Result<std::vector<cdi_generate::Naming>> ParseStrategies(const List& names) {
  if (!names) return std::vector{cdi_generate::Naming::kIndex, cdi_generate::Naming::kUuid};
  std::vector<cdi_generate::Naming> strategies;
  for (const auto& name : *names) {
    if (name == "index") {
      strategies.push_back(cdi_generate::Naming::kIndex);
    } else if (name == "uuid") {
      strategies.push_back(cdi_generate::Naming::kUuid);
    } else if (name == "type-index") {
      strategies.push_back(cdi_generate::Naming::kTypeIndex);
    } else {
      return base::Fail(BadUsage(
          fmt::format("--device-name-strategy \"{}\" is none of index, uuid, type-index", name)));
    }
  }
  return strategies;
}

base::Result<cdi::Spec> Generate(const GenerateFlags& flags) {
  const std::string mode = base::ToLower(flags.mode.value_or("auto"));
  if (mode != "auto" && mode != "nvml" && mode != "management") {
    return base::Fail(
        BadUsage(fmt::format("--mode \"{}\" is none of auto, nvml, management", mode)));
  }
  cdi_generate::Options options;
  options.driver_root = flags.driver_root.value_or("");
  if (options.driver_root.empty()) options.driver_root = "/";
  options.dev_root = flags.dev_root.value_or("");
  if (options.dev_root.empty()) options.dev_root = options.driver_root;
  options.kind = flags.vendor.value_or("nvidia.com") + "/" + flags.device_class.value_or("gpu");
  TRY(cdi::ValidateKind(options.kind));
  options.hook_path = flags.hook_path.value_or(options.hook_path);
  options.merged_device = !flags.no_all_device.value_or(false);
  options.disabled_hooks = flags.disabled_hooks.value_or(std::vector<std::string>{});
  TRY_ASSIGN(options.naming, ParseStrategies(flags.strategies));

  base::Result<gpu::Inventory> inventory = gpu::Inventory{};
  const auto library = nvml::Library::Open({options.driver_root});
  inventory = library ? (*library)->ReadInventory()
                      : base::Result<gpu::Inventory>(base::Fail(library.error()));
  if (!inventory && mode != "management") return base::Fail(inventory.error());
  TRY_ASSIGN(const auto files,
             cdi_generate::Locate({host::Root(options.driver_root), host::Root(options.dev_root),
                                   inventory ? inventory->driver_version : "", "/sys", "/proc"}));
  if (mode == "management") return cdi_generate::GenerateManagement(files, options);
  TRY_ASSIGN(auto generated, cdi_generate::GenerateGpus(*inventory, files, options));
  for (const auto& error : generated.omitted) base::LogWarning("A GPU is left out", error);
  return std::move(generated.spec);
}

base::Status GenerateCdi(int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi generate",
                         "Writes a CDI specification of this node's GPUs", PITCREW_VERSION);
  GenerateFlags flags;
  AddFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  const std::string format = base::ToLower(flags.format.value_or("yaml"));
  if (format != "yaml" && format != "json") {
    return base::Fail(BadUsage(fmt::format("--format \"{}\" is neither yaml nor json", format)));
  }
  TRY_ASSIGN(const cdi::Spec spec, Generate(flags));
  TRY(cdi::Validate(spec));
  std::filesystem::path output = flags.output.value_or("");
  if (output.empty()) {
    Print(format == "json" ? cdi::ToJsonText(spec) : cdi::ToYamlText(spec));
    return {};
  }
  if (output.extension() != ".json" && output.extension() != ".yaml") output += "." + format;
  TRY(cdi::WriteSpecFile(output, spec));
  base::LogInfo("Wrote a CDI specification",
                {{"file", output.string()}, {"devices", spec.devices.size()}});
  return {};
}

// --- cdi list
// -------------------------------------------------------------------------------------

base::Status ListCdi(int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi list", "Prints the names of all CDI devices",
                         PITCREW_VERSION);
  List folders;
  line.Add({"spec-dir", "NVIDIA_CTK_CDI_SPEC_DIRS", "folders of specifications"}, &folders);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  std::vector<std::filesystem::path> searched(std::begin(cdi::kDefaultSpecFolders),
                                              std::end(cdi::kDefaultSpecFolders));
  if (folders) searched.assign(folders->begin(), folders->end());
  const auto registry = cdi::Registry::Load(searched);
  for (const auto& error : registry.errors()) {
    base::LogWarning("A CDI specification is passed over", error);
  }
  for (const auto& name : registry.DeviceNames()) Print(name + "\n");
  return {};
}

// --- runtime configure
// ----------------------------------------------------------------------------

struct ConfigureFlags {
  Text engine, config, drop_in, source, name, path, executable;
  Switch dry_run, set_as_default, enable_cdi;
};

void AddFlags(base::CommandLine& line, ConfigureFlags& to) {
  line.Add({"dry-run", "", "print instead of writing"}, &to.dry_run);
  line.Add({"runtime", "", "containerd, crio or docker"}, &to.engine);
  line.Add({"config", "", "top-level configuration"}, &to.config);
  line.Add({"drop-in-config", "", "drop-in file"}, &to.drop_in);
  line.Add({"config-source", "", "file or command"}, &to.source);
  line.Add({"executable-path", "", "the engine's program"}, &to.executable);
  line.Add({"nvidia-runtime-name", "", "name in the engine"}, &to.name);
  line.Add({"nvidia-runtime-path,runtime-path", "", "program of the runtime"}, &to.path);
  line.Add({"nvidia-set-as-default,set-as-default", "", "make it the default"}, &to.set_as_default);
  line.Add({"cdi.enabled,cdi.enable,enable-cdi", "", "switch CDI on in the engine"},
           &to.enable_cdi);
}

base::Result<EngineOptions> ConfigureOptions(const ConfigureFlags& flags) {
  // The engine's defaults are those of the installer.
  std::vector<std::string> words = {"nvidia-ctk", "--runtime", flags.engine.value_or("docker")};
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  TRY_ASSIGN(const auto options,
             ParseOptions(static_cast<int>(argv.size()), argv.data(),
                          [](const std::string&) -> Text { return std::nullopt; }));
  EngineOptions engine = options->engine;
  if (flags.drop_in && engine.kind == EngineKind::kDocker) {
    return base::Fail(BadUsage("docker has no drop-in configuration"));
  }
  if (flags.drop_in) engine.drop_in = *flags.drop_in;
  if (!engine.drop_in.empty() && !engine.drop_in.is_absolute()) {
    return base::Fail(BadUsage("--drop-in-config must be an absolute path"));
  }
  if (flags.config) engine.config = *flags.config;
  engine.executable = flags.executable.value_or("");
  engine.host_root = "/";
  engine.runtime_name = flags.name.value_or("nvidia");
  engine.set_as_default = flags.set_as_default.value_or(false);
  engine.enable_cdi = flags.enable_cdi.value_or(false);
  return engine;
}

base::Result<std::string> RuntimePath(const ConfigureFlags& flags, EngineKind kind) {
  if (flags.path && kind != EngineKind::kDocker && !flags.path->starts_with('/')) {
    return base::Fail(BadUsage("--nvidia-runtime-path must be an absolute path"));
  }
  return flags.path.value_or(kind == EngineKind::kDocker ? "nvidia-container-runtime"
                                                         : "/usr/bin/nvidia-container-runtime");
}

base::Result<codec::Json> ReadSource(const ConfigureFlags& flags, const EngineOptions& engine,
                                     const EngineFiles& files) {
  const std::string source = flags.source.value_or("file");
  if (source == "command" && engine.kind != EngineKind::kDocker) {
    TRY_ASSIGN(const std::string dump, DumpEngineConfig(engine));
    return ParseEngineConfig(engine.kind, dump, "the engine's configuration dump");
  }
  if (source != "file" && source != "command") {
    return base::Fail(
        BadUsage(fmt::format("--config-source \"{}\" is neither file nor command", source)));
  }
  return ParseEngineConfig(engine.kind, files.config.value_or(""), engine.config.string());
}

base::Status ConfigureRuntime(int argc, char** argv) {
  base::CommandLine line("nvidia-ctk runtime configure",
                         "Adds the NVIDIA runtime to a container engine's configuration; does not "
                         "restart the engine",
                         PITCREW_VERSION);
  ConfigureFlags flags;
  AddFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  TRY_ASSIGN(const EngineOptions engine, ConfigureOptions(flags));
  TRY_ASSIGN(const std::string path, RuntimePath(flags, engine.kind));
  const EngineFileStore store(engine.host_root);
  EngineFiles files;
  TRY_ASSIGN(files.config, store.Read(engine.config));
  TRY_ASSIGN(files.drop_in, store.Read(engine.drop_in));
  TRY_ASSIGN(const auto source, ReadSource(flags, engine, files));
  const std::vector<Runtime> runtimes = {{engine.runtime_name, path, engine.set_as_default}};
  TRY_ASSIGN(const auto wanted, PlanSetup(engine, runtimes, source, files));
  for (const auto& file : wanted) {
    if (flags.dry_run.value_or(false)) {
      Print(file.content.value_or("") + "\n");
    } else if (file.content) {
      TRY(store.Put(file));
      base::LogInfo("Wrote", {{"file", file.path.string()}});
    }
  }
  return {};
}

struct Subcommand {
  std::string_view group;
  std::string_view name;
  base::Status (*run)(int argc, char** argv);
};
constexpr Subcommand kSubcommands[] = {{"cdi", "generate", GenerateCdi},
                                       {"cdi", "list", ListCdi},
                                       {"runtime", "configure", ConfigureRuntime}};

int PrintUsage(std::FILE* out) {
  fmt::print(out, "usage: nvidia-ctk [--debug] [--quiet] COMMAND [FLAGS]\n\ncommands:\n");
  for (const auto& command : kSubcommands)
    fmt::print(out, "  {} {}\n", command.group, command.name);
  return out == stdout ? 0 : kUsage;
}

}  // namespace

int CtkCommand(int argc, char** argv) {
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    const std::string_view flag = argv[at];
    if (flag == "--debug" || flag == "-d") {
      base::ConfigureLog({.level = base::LogLevel::kDebug});
    } else if (flag == "--quiet") {
      base::ConfigureLog({.level = base::LogLevel::kError});
    } else if (flag == "--version" || flag == "-v") {
      fmt::print("NVIDIA Container Toolkit CLI version {} (Pitcrew)\n", PITCREW_VERSION);
      return 0;
    } else {
      return PrintUsage(flag == "--help" || flag == "-h" ? stdout : stderr);
    }
  }
  if (argc - at < 2) return PrintUsage(stderr);
  for (const auto& command : kSubcommands) {
    if (command.group == argv[at] && command.name == argv[at + 1]) {
      return Report(command.run(argc - at - 1, argv + at + 1));
    }
  }
  return PrintUsage(stderr);
}

}  // namespace pitcrew::node::toolkit

// nvidia-ctk runtime configure (container-toolkit.md 5.2).
#include <fmt/format.h>

#include "base/command_line.h"
#include "base/log.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/containerd.h"
#include "node/toolkit/crio.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/engine_process.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using namespace toolkit;  // NOLINT(google-build-using-namespace): all of it is about its engines

struct ConfigureFlags {
  Text engine, config, drop_in, source, name, path, executable, mode, hook_file, hook_program;
  Switch dry_run, set_as_default, enable_cdi;
};

void AddFlags(base::CommandLine& line, ConfigureFlags& to) {
  line.Add({"dry-run", "", "print instead of writing"}, &to.dry_run);
  line.Add({"runtime", "", "containerd, crio or docker"}, &to.engine);
  line.Add({"config", "", "top-level configuration"}, &to.config);
  line.Add({"drop-in-config", "", "drop-in file"}, &to.drop_in);
  line.Add({"config-source", "", "file or command"}, &to.source);
  line.Add({"executable-path", "", "the engine's program"}, &to.executable);
  line.Add({"config-mode", "",
            "config (or config-file): runtimes in the engine's configuration; hook (or oci-hook): "
            "an OCI hook, for engines that read them (CRI-O, Podman)"},
           &to.mode);
  line.Add({"oci-hook-path", "", "file of the hook; empty: standard output"}, &to.hook_file);
  line.Add({"nvidia-runtime-hook-path", "", "program of the hook"}, &to.hook_program);
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
  engine.hook = {};  // of the installer
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

base::Result<bool> WantsHook(const ConfigureFlags& flags) {
  const std::string mode = flags.mode.value_or("");
  if (mode == "hook" || mode == "oci-hook") return true;
  if (mode.empty() || mode == "config" || mode == "config-file") return false;
  return base::Fail(BadUsage(
      fmt::format("--config-mode \"{}\" is none of config, config-file, hook, oci-hook", mode)));
}

// Nothing of the engine is read: the hook's file stands for itself (container-toolkit.md 5.2).
base::Status WriteHook(const ConfigureFlags& flags) {
  const std::filesystem::path program =
      flags.hook_program.value_or("/usr/bin/nvidia-container-runtime-hook");
  if (!program.is_absolute()) {
    return base::Fail(BadUsage("--nvidia-runtime-hook-path must be an absolute path"));
  }
  const bool to_output = flags.dry_run.value_or(false);
  const std::string file = to_output ? "" : flags.hook_file.value_or("");
  TRY(WriteResult(OciHookText(program), file));
  if (!file.empty()) base::LogInfo("Wrote", {{"file", file}});
  return {};
}

}  // namespace

base::Status ConfigureRuntime(const GlobalFlags&, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk runtime configure",
                         "Adds the NVIDIA runtime to a container engine's configuration; does not "
                         "restart the engine",
                         PITCREW_VERSION);
  ConfigureFlags flags;
  AddFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  TRY_ASSIGN(const bool hook, WantsHook(flags));
  if (hook) return WriteHook(flags);
  TRY_ASSIGN(const EngineOptions engine, ConfigureOptions(flags));
  TRY_ASSIGN(const std::string path, RuntimePath(flags, engine.kind));
  const EngineFileStore store(engine.host_root);
  EngineFiles files;
  TRY_ASSIGN(const auto root, store.Save(engine.config));
  files.config = root.file.content;
  if (files.config) files.config_mode = root.mode;
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

}  // namespace pitcrew::node::ctk

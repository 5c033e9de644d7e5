#include "node/toolkit/crio.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "codec/toml.h"
#include "host/root.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;
namespace fs = std::filesystem;

// The folders of programs that a hook finds besides its own (container-toolkit.md 4.12).
constexpr const char* kHookPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// The settings that our runtimes start from: those of the default runtime, runc or crun.
Json BaseCrioRuntime(const Json& source) {
  const std::string preferred = codec::FindString(source, {"crio", "runtime", "default_runtime"});
  for (const std::string& name : {preferred, std::string("runc"), std::string("crun")}) {
    if (name.empty() || name.starts_with("nvidia")) continue;
    const Json* found = codec::Find(source, {"crio", "runtime", "runtimes", name});
    if (found != nullptr && found->is_object()) return *found;
  }
  return Json::object();
}

const fs::path& RuntimesFile(const EngineOptions& options) {
  return options.drop_in.empty() ? options.config : options.drop_in;
}

// A file of that name can also be a package's: only one that runs our program is taken away.
bool IsOurHook(const EngineOptions& options, const EngineFiles& files) {
  if (!files.hook) return false;
  const auto hook = codec::ParseJson(*files.hook);
  return hook && codec::FindString(*hook, {"hook", "path"}) == options.hook.program;
}

// The drop-in without us as the default; nothing where it has nothing of that.
base::Result<std::optional<FileContent>> WithoutOurDefault(const EngineOptions& options,
                                                           const std::vector<Runtime>& runtimes,
                                                           const EngineFiles& files) {
  const auto& path = RuntimesFile(options);
  const auto& text = options.drop_in.empty() ? files.config : files.drop_in;
  TRY_ASSIGN(Json config, codec::ParseToml(text.value_or(""), path.string()));
  const std::string current = codec::FindString(config, {"crio", "runtime", "default_runtime"});
  for (const auto& runtime : runtimes) {
    if (!runtime.is_default || runtime.name != current) continue;
    config["crio"]["runtime"].erase("default_runtime");
    return FileContent{path, codec::ToTomlText(config)};
  }
  return std::nullopt;
}

FileContent HookFile(const EngineOptions& options, std::optional<std::string> text) {
  FileContent file{options.hook.file, std::move(text)};
  file.is_followed = true;
  return file;
}

}  // namespace

std::string OciHookText(const fs::path& program) {
  std::string path = kHookPath;
  const auto own = program.parent_path().string();
  const auto folders = base::Split(path, ':');
  if (std::ranges::find(folders, own) == folders.end()) path += ":" + own;
  const auto quoted = [](const std::string& text) { return Json(text).dump(); };
  return fmt::format(R"({{
  "version": "1.0.0",
  "hook": {{
    "path": {},
    "args": [
      {},
      "prestart"
    ],
    "env": [
      {}
    ]
  }},
  "when": {{
    "always": true,
    "commands": [
      ".*"
    ]
  }},
  "stages": [
    "prestart"
  ]
}}
)",
                     quoted(program.string()), quoted(program.filename().string()),
                     quoted("PATH=" + path));
}

base::Result<std::vector<FileContent>> PlanCrioSetup(const EngineOptions& options,
                                                     const std::vector<Runtime>& runtimes,
                                                     const Json& source, const EngineFiles& files) {
  const Json base_runtime = BaseCrioRuntime(source);
  Json drop_in = Json::object();
  Json& table = drop_in["crio"]["runtime"];
  for (const auto& runtime : runtimes) {
    Json settings = base_runtime;
    settings["runtime_path"] = runtime.path;
    settings["runtime_type"] = "oci";
    table["runtimes"][runtime.name] = std::move(settings);
    if (runtime.is_default) table["default_runtime"] = runtime.name;
  }
  std::vector<FileContent> wanted = {{RuntimesFile(options), codec::ToTomlText(drop_in)}};
  // What the hook would inject, the default runtime does; the hook is for containers of another
  // one, which it refuses a GPU.
  if (options.hook.enabled) {
    wanted.push_back(HookFile(options, OciHookText(options.hook.program)));
    return wanted;
  }
  // Of a toolkit before this one that was in the mode hook.
  if (IsOurHook(options, files)) wanted.push_back(HookFile(options, std::nullopt));
  return wanted;
}

base::Result<std::vector<FileContent>> PlanCrioCleanup(const EngineOptions& options,
                                                       const std::vector<Runtime>& runtimes,
                                                       const EngineFiles& files) {
  std::vector<FileContent> wanted;
  TRY_ASSIGN(auto drop_in, WithoutOurDefault(options, runtimes, files));
  if (drop_in) wanted.push_back(*std::move(drop_in));
  if (IsOurHook(options, files)) wanted.push_back(HookFile(options, std::nullopt));
  return wanted;
}

base::Status CheckHookIsRead(const EngineOptions& options, const Json& dump) {
  const Json* folders = codec::Find(dump, {"crio", "runtime", "hooks_dir"});
  if (folders == nullptr || !folders->is_array() || folders->empty()) return {};
  const host::Root node(options.host_root.empty() ? "/" : options.host_root);
  std::vector<std::string> names;
  for (const auto& folder : *folders) {
    if (!folder.is_string()) continue;
    names.push_back(folder.get<std::string>());
    const auto seen = node.Resolve(names.back());
    std::error_code problem;
    if (seen && fs::equivalent(*seen / options.hook.file.filename(), options.hook.file, problem)) {
      return {};
    }
  }
  return base::Fail(base::Invalid(
      "HookNotRead",
      fmt::format("CRI-O looks for hooks in {} and not in the folder of {}: set CRIO_HOOKS_DIR to "
                  "one of them, or hooks_dir of CRI-O to the folder",
                  base::Join(names, ", "), options.hook.file.string())));
}

}  // namespace pitcrew::node::toolkit

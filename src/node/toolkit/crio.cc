#include "node/toolkit/crio.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "codec/toml.h"
#include "host/root.h"
#include "node/toolkit/engine_files.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;
namespace fs = std::filesystem;

// The folders of programs that a hook finds besides its own (container-toolkit.md 4.12).
constexpr const char* kHookPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const Json* FindRuntime(const Json& config, const std::string& name) {
  const Json* found = codec::Find(config, {"crio", "runtime", "runtimes", name});
  return found != nullptr && found->is_object() ? found : nullptr;
}

const fs::path& RuntimesFile(const EngineOptions& options) {
  return options.drop_in.empty() ? options.config : options.drop_in;
}

// Settings of a runtime of ours as an earlier start wrote them.
const Json* OwnRuntime(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                       const Json& written) {
  for (const auto& runtime : runtimes) {
    const Json* own = FindRuntime(written, runtime.name);
    const auto program = own != nullptr ? codec::FindString(*own, {"runtime_path"}) : "";
    if (!program.empty() && !IsOfTheNode(options, program)) return own;
  }
  return nullptr;
}

// The settings that our runtimes start from: those of the default runtime, runc or crun. Files
// alone, when CRI-O does not answer, need not tell the default's: then ours keep what they have,
// since containers that run can be entered with that only. NVIDIA's own of the node's image is no
// base.
Json BaseCrioRuntime(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                     const Json& source, const Json& written) {
  const std::string preferred = codec::FindString(source, {"crio", "runtime", "default_runtime"});
  const Json* found = FindRuntime(source, preferred);
  const bool is_of_the_node =
      found != nullptr && IsOfTheNode(options, codec::FindString(*found, {"runtime_path"}));
  if (preferred.starts_with("nvidia")) {
    found = is_of_the_node ? nullptr : OwnRuntime(options, runtimes, written);
  } else if (found == nullptr) {
    found = OwnRuntime(options, runtimes, written);
  }
  for (const auto* name : {"runc", "crun"}) {
    if (found == nullptr) found = FindRuntime(source, name);
  }
  return found != nullptr ? *found : Json::object();
}

// The files below a folder in CRI-O's order: names within each folder, whatever their endings.
base::Result<std::vector<fs::path>> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code problem;
  for (auto entry = fs::directory_iterator(folder, problem);
       !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    entries.push_back(entry->path());
  }
  std::vector<fs::path> files;
  if (problem == std::errc::no_such_file_or_directory) return files;
  if (problem) {
    return base::Fail(base::FromErrno(problem.value(), "read the folder " + folder.string()));
  }
  std::ranges::sort(entries);
  for (const auto& entry : entries) {
    std::error_code ignored;
    if (!fs::is_directory(fs::symlink_status(entry, ignored))) {
      files.push_back(entry);
      continue;
    }
    TRY_ASSIGN(const auto deeper, FilesBelow(entry));
    files.insert(files.end(), deeper.begin(), deeper.end());
  }
  return files;
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

base::Result<Json> ReadCrioFiles(const EngineOptions& options) {
  std::vector<fs::path> paths = {options.config.parent_path() / "crio.conf"};
  if (options.config != paths.front()) paths.push_back(options.config);
  if (!options.drop_in.empty()) {
    TRY_ASSIGN(const auto files, FilesBelow(options.drop_in.parent_path()));
    paths.insert(paths.end(), files.begin(), files.end());
  }
  const EngineFileStore store(options.host_root);
  Json all = Json::object();
  for (const auto& path : paths) {
    TRY_ASSIGN(const auto text, store.Read(path));
    TRY_ASSIGN(const Json config, codec::ParseToml(text.value_or(""), path.string()));
    if (const Json* runtimes = codec::Find(config, {"crio", "runtime", "runtimes"});
        runtimes != nullptr && runtimes->is_object() &&
        codec::Find(all, {"crio", "runtime", "runtimes"}) != nullptr) {
      for (const auto& item : runtimes->items()) {
        all["crio"]["runtime"]["runtimes"].erase(item.key());
      }
    }
    codec::ApplyMergePatch(all, config);
  }
  return all;
}

base::Result<std::vector<FileContent>> PlanCrioSetup(const EngineOptions& options,
                                                     const std::vector<Runtime>& runtimes,
                                                     const Json& source, const EngineFiles& files) {
  // What does not parse is written over: CRI-O would not start with it.
  const auto& text = options.drop_in.empty() ? files.config : files.drop_in;
  const Json written = codec::ParseToml(text.value_or("")).value_or(Json::object());
  const Json base_runtime = BaseCrioRuntime(options, runtimes, source, written);
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

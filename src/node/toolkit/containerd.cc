#include "node/toolkit/containerd.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "codec/toml.h"
#include "codec/toml_library.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

constexpr const char* kProgram = "BinaryName";
constexpr const char* kCriV1 = "cri";
constexpr const char* kCriV2 = "io.containerd.grpc.v1.cri";
constexpr const char* kCriV3 = "io.containerd.cri.v1.runtime";

// The object at a path of tables, made where it is missing.
Json& TableAt(Json& root, const std::vector<std::string>& path) {
  Json* at = &root;
  for (const auto& name : path) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[name];
  }
  if (!at->is_object()) *at = Json::object();
  return *at;
}

const Json* FindAt(const Json& root, const std::vector<std::string>& path) {
  const Json* at = &root;
  for (const auto& name : path) {
    if (!at->is_object()) return nullptr;
    const auto member = at->find(name);
    if (member == at->end()) return nullptr;
    at = &*member;
  }
  return at;
}

std::vector<std::string> Below(std::vector<std::string> path, std::string_view name) {
  path.emplace_back(name);
  return path;
}

// The settings that our runtimes start from: those of the engine's default runtime, runc or crun.
Json BaseRuntime(const Json& containerd_table, const EngineOptions& options) {
  const std::string preferred = codec::FindString(containerd_table, {"default_runtime_name"});
  for (const std::string& name : {preferred, std::string("runc"), std::string("crun")}) {
    if (name.empty() || name.starts_with("nvidia")) continue;
    const Json* runtime = codec::Find(containerd_table, {"runtimes", name});
    if (runtime != nullptr && runtime->is_object()) return *runtime;
  }
  return {{"privileged_without_host_devices", false},
          {"runtime_engine", ""},
          {"runtime_root", ""},
          {"runtime_type", options.runtime_type}};
}

// NVIDIA's runtime of a node's own image, where that is the default: how its containers are made is
// said there alone (cgroups by systemd, limits), and ours take its place.
void TakeFromDefaultOfTheNode(const Json& root_table, Json& base_runtime) {
  const auto name = codec::FindString(root_table, {"default_runtime_name"});
  const Json* own = codec::Find(root_table, {"runtimes", name});
  if (own == nullptr) return;
  Json settings = *own;
  settings["options"].erase(kProgram);
  codec::ApplyMergePatch(base_runtime, settings);
}

void AddRuntime(Json& containerd_table, const Runtime& runtime, const Json& base_runtime,
                const EngineOptions& options, int version) {
  Json settings = base_runtime;
  if (!options.annotation_prefixes.empty()) {
    Json annotations = Json::array();
    for (const auto& prefix : options.annotation_prefixes) annotations.push_back(prefix + "*");
    if (const Json* own = codec::Find(settings, {"container_annotations"});
        own && own->is_array()) {
      for (const auto& item : *own) annotations.push_back(item);
    }
    settings["container_annotations"] = std::move(annotations);
  }
  if (codec::FindString(settings, {"runtime_type"}).empty()) {
    settings["runtime_type"] = options.runtime_type;
  }
  Json& runtime_options = TableAt(settings, {"options"});
  runtime_options[kProgram] = runtime.path;
  if (version == 1) runtime_options["Runtime"] = runtime.path;
  TableAt(containerd_table, {"runtimes"})[runtime.name] = std::move(settings);
}

void SetDefault(Json& containerd_table, const std::vector<Runtime>& runtimes,
                const EngineOptions& options, int version, bool keeps_default) {
  for (const auto& runtime : runtimes) {
    if (runtime.is_default && version == 1 && options.use_legacy_config) {
      Json& table = containerd_table["default_runtime"];
      if (!table.is_object()) {
        table = {{"runtime_type", options.runtime_type},
                 {"runtime_root", ""},
                 {"runtime_engine", ""},
                 {"privileged_without_host_devices", false}};
      }
      table["options"][kProgram] = runtime.path;
      table["options"]["Runtime"] = runtime.path;
    } else if (runtime.is_default) {
      containerd_table["default_runtime_name"] = runtime.name;
    } else if (!keeps_default &&
               codec::FindString(containerd_table, {"default_runtime_name"}) == runtime.name) {
      containerd_table.erase("default_runtime_name");
    }
  }
}

bool HasCdiOff(const Json& source, int version) {
  const Json* cri = FindAt(source, CriTablePath(version));
  const Json* enabled = cri != nullptr ? codec::Find(*cri, {"enable_cdi"}) : nullptr;
  return enabled != nullptr && enabled->is_boolean() && !enabled->get<bool>();
}

bool HasCredentials(const Json& cri_table) {
  for (const auto* place : {"headers", "auths"}) {
    const Json* found = codec::Find(cri_table, {"registry", place});
    if (found != nullptr && !found->empty()) return true;
  }
  const Json* configs = codec::Find(cri_table, {"registry", "configs"});
  return configs != nullptr && configs->is_object() &&
         std::ranges::any_of(*configs, [](const Json& registry) {
           const Json* auth = codec::Find(registry, {"auth"});
           return auth != nullptr && !auth->empty();
         });
}

bool IsEmptyObject(const Json& value) { return value.is_object() && value.empty(); }

// Removes our runtimes below one CRI table; empty tables on the way go too. Whether anything did.
bool RemoveRuntimes(Json& config, const std::vector<std::string>& cri_path,
                    const std::vector<Runtime>& runtimes, const EngineOptions& options) {
  const auto path = Below(cri_path, "containerd");
  if (FindAt(config, path) == nullptr) return false;
  Json& table = TableAt(config, path);
  bool changed = false;
  for (const auto& runtime : runtimes) {
    const auto program = codec::FindString(table, {"runtimes", runtime.name, "options", kProgram});
    if (IsOfTheNode(options, program)) continue;
    if (table.contains("runtimes") && table["runtimes"].is_object()) {
      changed = table["runtimes"].erase(runtime.name) > 0 || changed;
    }
    if (codec::FindString(table, {"default_runtime_name"}) == runtime.name) {
      table.erase("default_runtime_name");
      changed = true;
    }
    if (codec::FindString(table, {"default_runtime", "options", kProgram}) == runtime.path) {
      table.erase("default_runtime");
      changed = true;
    }
  }
  if (!changed) return false;
  if (table.contains("runtimes") && IsEmptyObject(table["runtimes"])) table.erase("runtimes");
  for (auto at = path; !at.empty(); at.pop_back()) {
    Json& parent = TableAt(config, {at.begin(), at.end() - 1});
    if (!IsEmptyObject(parent[at.back()])) break;
    parent.erase(at.back());
  }
  return true;
}

std::string ImportPattern(const EngineOptions& options) {
  const std::filesystem::path drop_in = options.drop_in_host_path.empty()
                                            ? options.drop_in
                                            : std::filesystem::path(options.drop_in_host_path);
  return (drop_in.parent_path() / "*.toml").string();
}

std::string HostDropIn(const EngineOptions& options) {
  return options.drop_in_host_path.empty() ? options.drop_in.string() : options.drop_in_host_path;
}

// An import that covers the drop-in already, however it is written.
bool IsImported(const Json& config, const EngineOptions& options) {
  const Json* imports = codec::Find(config, {"imports"});
  if (imports == nullptr || !imports->is_array()) return false;
  return std::ranges::any_of(*imports, [&](const Json& import) {
    return import.is_string() && ::fnmatch(import.get<std::string>().c_str(),
                                           HostDropIn(options).c_str(), FNM_PATHNAME) == 0;
  });
}

base::Result<std::string> TopLevelText(const EngineOptions& options, int version,
                                       const std::optional<std::string>& text) {
  TRY_ASSIGN(const Json config, codec::ParseToml(text.value_or(""), options.config.string()));
  if (config.empty()) {
    return codec::ToTomlText({{"imports", {ImportPattern(options)}}, {"version", version}});
  }
  if (IsImported(config, options)) return *text;
  return AddImport(*text, ImportPattern(options));
}

std::size_t OffsetOf(std::string_view text, toml::source_position position) {
  std::size_t at = 0;
  for (unsigned line = 1; line < position.line; ++line) at = text.find('\n', at) + 1;
  // Columns count characters; configuration before a list of paths is ASCII in practice, and a
  // wrong place is noticed by reading the result back.
  return at + position.column - 1;
}

}  // namespace

std::vector<std::string> CriTablePath(int version) {
  if (version == 1) return {"plugins", kCriV1};
  if (version == 2) return {"plugins", kCriV2};
  return {"plugins", kCriV3};
}

base::Result<int> ConfigVersion(const Json& config, int when_empty) {
  if (config.empty()) return when_empty;
  const auto version = config.find("version");
  if (version == config.end()) return 1;
  if (!version->is_number_integer() || version->get<std::int64_t>() < 1) {
    return base::Fail(base::Invalid("InvalidEngineConfig",
                                    "containerd's configuration has a version that is no number"));
  }
  return version->get<int>();
}

base::Result<ContainerdBasis> ChooseBasis(const EngineOptions& options, const Json& source,
                                          const std::optional<std::string>& root_text) {
  ContainerdBasis basis;
  TRY_ASSIGN(const int from_source, ConfigVersion(source, options.use_legacy_config ? 1 : 2));
  TRY_ASSIGN(Json root, codec::ParseToml(root_text.value_or(""), options.config.string()));
  TRY_ASSIGN(const int from_root, ConfigVersion(root, from_source));
  const auto table_of = [](const Json& config, int version) {
    const Json* table = FindAt(config, Below(CriTablePath(version), "containerd"));
    return table != nullptr ? *table : Json::object();
  };
  const Json root_table = table_of(root, from_root);
  basis.keeps_default = HasDefaultOfTheNode(options, root);
  basis.version = std::min(from_root, from_source);
  basis.is_deep = from_root < from_source && from_source >= 3;
  basis.config = from_root < from_source ? root : source;
  if (from_root == 1 && basis.is_deep) {
    basis.version = 3;
    basis.names_version = false;
  }
  basis.writes_cdi = options.enable_cdi && (from_source < 3 || HasCdiOff(source, from_source));
  basis.base_runtime = BaseRuntime(
      table_of(basis.is_deep ? source : basis.config, basis.is_deep ? from_source : basis.version),
      options);
  if (basis.keeps_default) TakeFromDefaultOfTheNode(root_table, basis.base_runtime);
  return basis;
}

void AddRuntimes(Json& config, const ContainerdBasis& basis, const EngineOptions& options,
                 const std::vector<Runtime>& runtimes) {
  const int version = basis.version;
  Json& containerd_table = TableAt(config, Below(CriTablePath(version), "containerd"));
  for (const auto& runtime : runtimes) {
    AddRuntime(containerd_table, runtime, basis.base_runtime, options, version);
  }
  SetDefault(containerd_table, runtimes, options, version, basis.keeps_default);
  if (!basis.writes_cdi) return;
  TableAt(config, version == 1 ? Below(CriTablePath(1), "containerd")
                               : CriTablePath(version))["enable_cdi"] = true;
}

mode_t ModeOfCopy(const Json& cri_table, mode_t root_mode) {
  constexpr mode_t kOwnerOnly = 0600;
  return HasCredentials(cri_table) ? root_mode & kOwnerOnly : root_mode;
}

base::Result<std::string> AddImport(const std::string& text, const std::string& pattern) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return base::Fail(base::Invalid("InvalidToml", std::string(parsed.error().description())));
  }
  TRY_ASSIGN(Json expected, codec::ParseToml(text));
  if (!expected["imports"].is_array()) expected["imports"] = Json::array();
  expected["imports"].push_back(pattern);
  const std::string list = codec::ToTomlText({{"imports", expected["imports"]}});
  std::string changed = list + text;
  if (const toml::node* node = parsed.table().get("imports")) {
    const std::size_t begin = OffsetOf(text, node->source().begin);
    const std::size_t end = OffsetOf(text, node->source().end);
    if (begin < end && end <= text.size()) {
      const std::string value = list.substr(list.find('['), list.size() - list.find('[') - 1);
      changed = text.substr(0, begin) + value + text.substr(end);
    }
  }
  // The text is somebody else's: a change that does not read back exactly is not made this way.
  const auto back = codec::ParseToml(changed);
  return back && *back == expected ? changed : codec::ToTomlText(expected);
}

base::Result<std::vector<FileContent>> PlanContainerdSetup(const EngineOptions& options,
                                                           const std::vector<Runtime>& runtimes,
                                                           const Json& source,
                                                           const EngineFiles& files) {
  TRY_ASSIGN(const ContainerdBasis basis, ChooseBasis(options, source, files.config));
  const int version = basis.version;
  if (version == 1 || options.drop_in.empty()) {
    // Version 1 knows no imports, so the drop-in would never be read (container-toolkit.md 13 row
    // 7). The root file gets the runtimes and nothing else: what the engine prints of itself has
    // the imported files in it, which may be for their owner only.
    if (!basis.names_version) {
      return base::Fail(base::Error{
          base::Code::kUnsupported, "DropInNeeded",
          fmt::format("{} has version 1, from which containerd 2 takes no runtimes: name a drop-in "
                      "(RUNTIME_DROP_IN_CONFIG)",
                      options.config.string())});
    }
    TRY_ASSIGN(Json config, codec::ParseToml(files.config.value_or(""), options.config.string()));
    config["version"] = version;
    AddRuntimes(config, basis, options, runtimes);
    return std::vector<FileContent>{{options.config, codec::ToTomlText(config)}};
  }
  Json drop_in = Json::object();
  if (basis.names_version) drop_in["version"] = version;
  mode_t most_mode = FileContent().most_mode;
  const Json* cri = FindAt(basis.config, CriTablePath(version));
  if (cri != nullptr && !basis.is_deep) {
    // An engine before 2.0 takes the last file's table as a whole.
    TableAt(drop_in, CriTablePath(version)) = *cri;
    most_mode = ModeOfCopy(*cri, files.config_mode);
  }
  AddRuntimes(drop_in, basis, options, runtimes);
  TRY_ASSIGN(std::string top_level, TopLevelText(options, version, files.config));
  return std::vector<FileContent>{{options.drop_in, codec::ToTomlText(drop_in), most_mode},
                                  {options.config, std::move(top_level)}};
}

base::Result<std::vector<FileContent>> PlanContainerdCleanup(const EngineOptions& options,
                                                             const std::vector<Runtime>& runtimes,
                                                             const EngineFiles& files) {
  std::vector<FileContent> wanted;
  if (!options.drop_in.empty()) wanted.push_back({options.drop_in, std::nullopt});
  TRY_ASSIGN(Json config, codec::ParseToml(files.config.value_or(""), options.config.string()));
  bool changed = false;
  for (const int version : {1, 2, 3}) {
    changed = RemoveRuntimes(config, CriTablePath(version), runtimes, options) || changed;
  }
  const Json ours = {ImportPattern(options)};
  const bool only_import = config.is_object() && config.size() == 2 && config.contains("version") &&
                           codec::Find(config, {"imports"}) != nullptr && config["imports"] == ours;
  if (only_import || (changed && config.size() == 1 && config.contains("version"))) {
    wanted.push_back({options.config, std::nullopt});
  } else if (changed) {
    wanted.push_back({options.config, codec::ToTomlText(config)});
  } else {
    wanted.push_back({options.config, files.config});
  }
  return wanted;
}

}  // namespace pitcrew::node::toolkit

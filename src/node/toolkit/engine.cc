#include "node/toolkit/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/toml.h"
#include "node/toolkit/containerd.h"
#include "node/toolkit/crio.h"
#include "node/toolkit/distribution.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

constexpr const char* kCdiRuntime = "nvidia-cdi";
constexpr const char* kLegacyRuntime = "nvidia-legacy";

// container-toolkit.md 2.4: four spaces, sorted keys, no newline at the end.
std::string DockerText(const Json& config) { return config.dump(4); }

// container-toolkit.md 4.13; features that are there already stay (13 row 12).
base::Result<std::vector<FileContent>> PlanDockerSetup(const EngineOptions& options,
                                                       const std::vector<Runtime>& runtimes,
                                                       const EngineFiles& files) {
  // The whole file is written anew: one that cannot be read is not taken for an empty one.
  TRY_ASSIGN(Json config, ParseEngineConfig(EngineKind::kDocker, files.config.value_or(""),
                                            options.config.string()));
  if (!config["runtimes"].is_object()) config["runtimes"] = Json::object();
  for (const auto& runtime : runtimes) {
    config["runtimes"][runtime.name] = {{"args", Json::array()}, {"path", runtime.path}};
    if (runtime.is_default) config["default-runtime"] = runtime.name;
  }
  if (options.enable_cdi) {
    if (!config["features"].is_object()) config["features"] = Json::object();
    config["features"]["cdi"] = true;
  }
  return std::vector<FileContent>{{options.config, DockerText(config)}};
}

base::Result<std::vector<FileContent>> PlanDockerCleanup(const EngineOptions& options,
                                                         const std::vector<Runtime>& runtimes,
                                                         const EngineFiles& files) {
  if (!files.config) return std::vector<FileContent>{{options.config, std::nullopt}};
  TRY_ASSIGN(Json config,
             ParseEngineConfig(EngineKind::kDocker, *files.config, options.config.string()));
  bool changed = false;
  for (const auto& runtime : runtimes) {
    const auto program = codec::FindString(config, {"runtimes", runtime.name, "path"});
    if (IsOfTheNode(options, program)) continue;
    if (config.contains("runtimes") && config["runtimes"].is_object()) {
      changed = config["runtimes"].erase(runtime.name) > 0 || changed;
    }
    if (codec::FindString(config, {"default-runtime"}) == runtime.name) {
      config["default-runtime"] = "runc";
      changed = true;
    }
  }
  if (!changed) return std::vector<FileContent>{{options.config, files.config}};
  if (config["runtimes"].empty()) config.erase("runtimes");
  return std::vector<FileContent>{{options.config, DockerText(config)}};
}

// Program of a configured runtime, empty when it is not configured or names none.
std::string ProgramOf(EngineKind kind, const Json& source, const std::string& name, int version) {
  switch (kind) {
    case EngineKind::kContainerd: {
      const auto path = CriTablePath(version);
      return codec::FindString(
          source, {path[0], path[1], "containerd", "runtimes", name, "options", "BinaryName"});
    }
    case EngineKind::kCrio:
      return codec::FindString(source, {"crio", "runtime", "runtimes", name, "runtime_path"});
    case EngineKind::kDocker:
      return codec::FindString(source, {"runtimes", name, "path"});
  }
  return {};
}

// Where the engine's configuration names its default runtime, and the table of all.
struct RuntimePlaces {
  Json::json_pointer default_name = Json::json_pointer();
  Json::json_pointer runtimes = Json::json_pointer();
};

RuntimePlaces PlacesOf(EngineKind kind, int version) {
  switch (kind) {
    case EngineKind::kContainerd: {
      Json::json_pointer table;
      for (const auto& name : CriTablePath(version)) table /= name;
      table /= "containerd";
      return {.default_name = table / "default_runtime_name", .runtimes = table / "runtimes"};
    }
    case EngineKind::kCrio:
      return {.default_name = Json::json_pointer("/crio/runtime/default_runtime"),
              .runtimes = Json::json_pointer("/crio/runtime/runtimes")};
    case EngineKind::kDocker:
      return {.default_name = Json::json_pointer("/default-runtime"),
              .runtimes = Json::json_pointer("/runtimes")};
  }
  return RuntimePlaces();
}

std::string DefaultRuntime(EngineKind kind, const Json& source, int version) {
  const auto place = PlacesOf(kind, version).default_name;
  if (!source.contains(place) || !source.at(place).is_string()) return {};
  return source.at(place).get<std::string>();
}

int VersionOf(EngineKind kind, const Json& source) {
  return kind == EngineKind::kContainerd ? ConfigVersion(source, 2).value_or(2) : 0;
}

// CRI-O reads all files of the folder, by their names, and the last one wins.
std::string WhyNotEffective(const EngineOptions& options) {
  return options.kind == EngineKind::kCrio
             ? "does a file there whose name comes later have that runtime too?"
             : fmt::format("does it read {}?", options.config.string());
}

}  // namespace

std::vector<Runtime> RuntimesFor(const EngineOptions& options,
                                 const std::filesystem::path& toolkit_folder) {
  std::string name = options.runtime_name;
  if (name.empty() || name == kCdiRuntime || name == kLegacyRuntime) name = "nvidia";
  const auto program = (toolkit_folder / "nvidia-container-runtime").string();
  std::vector<Runtime> runtimes = {
      {name, program}, {kCdiRuntime, program + ".cdi"}, {kLegacyRuntime, program + ".legacy"}};
  // k3s and RKE2 look for no nvidia-container-runtime.legacy, and older ones not for .cdi either.
  if (options.distribution.placement == Placement::kFoundByItself) {
    runtimes.erase(runtimes.begin() + 1, runtimes.end());
  }
  const std::string wanted = options.runtime_name.empty() ? name : options.runtime_name;
  for (auto& runtime : runtimes) {
    runtime.is_default = options.set_as_default && runtime.name == wanted;
  }
  return runtimes;
}

base::Result<std::vector<FileContent>> PlanSetup(const EngineOptions& options,
                                                 const std::vector<Runtime>& runtimes,
                                                 const Json& source, const EngineFiles& files) {
  switch (options.kind) {
    case EngineKind::kContainerd:
      if (options.distribution.placement != Placement::kRootFile) {
        return PlanDistributionSetup(options, runtimes, source, files);
      }
      return PlanContainerdSetup(options, runtimes, source, files);
    case EngineKind::kCrio:
      return PlanCrioSetup(options, runtimes, source, files);
    case EngineKind::kDocker:
      return PlanDockerSetup(options, runtimes, files);
  }
  return std::vector<FileContent>{};
}

base::Result<std::vector<FileContent>> PlanCleanup(const EngineOptions& options,
                                                   const std::vector<Runtime>& runtimes,
                                                   const EngineFiles& files) {
  switch (options.kind) {
    case EngineKind::kContainerd:
      if (options.distribution.placement != Placement::kRootFile) {
        return PlanDistributionCleanup(options, files);
      }
      return PlanContainerdCleanup(options, runtimes, files);
    case EngineKind::kCrio:
      return PlanCrioCleanup(options, runtimes, files);
    case EngineKind::kDocker:
      return PlanDockerCleanup(options, runtimes, files);
  }
  return std::vector<FileContent>{};
}

bool IsOfTheNode(const EngineOptions& options, const std::string& program) {
  if (options.own_program.empty() || program.empty()) return false;
  // Toolkits of operators lie in such a folder, wherever that is: an earlier one, or upstream's.
  const bool is_a_toolkits = std::filesystem::path(program).parent_path().filename() == "toolkit";
  return !is_a_toolkits && !program.starts_with(options.own_program);
}

bool HasDefaultOfTheNode(const EngineOptions& options, const Json& root) {
  const int version = VersionOf(options.kind, root);
  const std::string name = DefaultRuntime(options.kind, root, version);
  return name.starts_with("nvidia") &&
         IsOfTheNode(options, ProgramOf(options.kind, root, name, version));
}

Json WithDefaultBeforeOurs(const EngineOptions& options, Json source) {
  if (options.own_program.empty() || options.earlier_low_level.empty()) return source;
  const int version = VersionOf(options.kind, source);
  const auto places = PlacesOf(options.kind, version);
  const auto program_of = [&](const std::string& name) {
    return ProgramOf(options.kind, source, name, version);
  };
  const auto is_ours = [&](const std::string& name) {
    return program_of(name).starts_with(options.own_program);
  };
  if (!is_ours(DefaultRuntime(options.kind, source, version))) return source;
  if (!source.contains(places.runtimes) || !source.at(places.runtimes).is_object()) return source;
  for (const auto& [name, settings] : source.at(places.runtimes).items()) {
    if (program_of(name) != options.earlier_low_level) continue;
    source[places.default_name] = name;
    break;
  }
  return source;
}

std::vector<std::string> LowLevelRuntimes(EngineKind kind, const Json& source,
                                          const std::string& earlier) {
  const int version = VersionOf(kind, source);
  std::vector<std::string> programs;
  const auto add = [&](const std::string& program) {
    if (!program.empty() && std::ranges::find(programs, program) == programs.end()) {
      programs.push_back(program);
    }
  };
  const std::string preferred = DefaultRuntime(kind, source, version);
  if (!preferred.starts_with("nvidia")) add(ProgramOf(kind, source, preferred, version));
  if (programs.empty()) add(earlier);
  for (const auto* name : {"runc", "crun"}) add(ProgramOf(kind, source, name, version));
  add("runc");
  add("crun");
  return programs;
}

base::Status CheckEffective(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                            const Json& dump) {
  for (const auto& runtime : runtimes) {
    std::string program;
    // containerd 2.0.0 to 2.0.4 print version 3 with the tables of version 2.
    for (const int version : {3, 2, 1}) {
      program = ProgramOf(options.kind, dump, runtime.name, version);
      if (program == runtime.path || options.kind != EngineKind::kContainerd) break;
    }
    if (program == runtime.path) continue;
    return base::Fail(base::Invalid(
        "EngineConfigNotEffective",
        fmt::format(
            "{} does not take runtime {} from {}: its own configuration dump has program \"{}\" "
            "instead of \"{}\"; {}",
            ToString(options.kind), runtime.name, options.drop_in.string(), program, runtime.path,
            WhyNotEffective(options))));
  }
  return {};
}

base::Result<Json> ParseEngineConfig(EngineKind kind, std::string_view text,
                                     std::string_view source) {
  if (kind != EngineKind::kDocker) return codec::ParseToml(text, source);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return Json::object();
  TRY_ASSIGN(Json config, codec::ParseJson(text, source));
  if (!config.is_object()) {
    return base::Fail(
        base::Invalid("InvalidEngineConfig", fmt::format("{} is not an object", source)));
  }
  return config;
}

}  // namespace pitcrew::node::toolkit

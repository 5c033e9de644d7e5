#include "node/toolkit/distribution.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "codec/toml.h"
#include "host/root.h"
#include "node/toolkit/containerd.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

constexpr std::string_view kBegin = "# >>> runtimes of the container toolkit, which removes them\n";
constexpr std::string_view kEnd = "# <<< runtimes of the container toolkit\n";
// The language is Go's text/template: this draws in what k3s and RKE2 have built in.
constexpr std::string_view kNewTemplate =
    "# Made by the container toolkit, which removes it.\n{{ template \"base\" . }}\n";

const Json* FindTable(const Json& config, int version) {
  const auto path = CriTablePath(version);
  return codec::Find(config, {path[0], path[1]});
}

base::Error Unsupported(std::string_view reason, std::string message) {
  return {base::Code::kUnsupported, std::string(reason), std::move(message)};
}

// One table with its plain values, then those below it. A template has the tables above already:
// nothing may open them again.
void AppendTable(const std::string& header, const Json& table, std::string& text) {
  Json plain = Json::object();
  for (const auto& [key, value] : table.items()) {
    if (!value.is_object()) plain[key] = value;
  }
  text += fmt::format("[{}]\n{}", header, codec::ToTomlText(plain));
  for (const auto& [key, value] : table.items()) {
    if (value.is_object()) AppendTable(header + "." + Json(key).dump(), value, text);
  }
}

base::Result<std::string> TemplateTables(const EngineOptions& options,
                                         const std::vector<Runtime>& runtimes,
                                         const ContainerdBasis& basis) {
  const auto path = CriTablePath(basis.version);
  Json config = Json::object();
  ContainerdBasis plain = basis;
  plain.writes_cdi = false;
  AddRuntimes(config, plain, options, runtimes);
  const Json& containerd = config.at(path[0]).at(path[1]).at("containerd");
  if (containerd.contains("default_runtime_name")) {
    return base::Fail(Unsupported(
        "DefaultInTemplate",
        fmt::format("the default runtime cannot be set in {}, whose tables {} writes: unset "
                    "NVIDIA_RUNTIME_SET_AS_DEFAULT, and tell {} (k3s and RKE2: --default-runtime)",
                    options.drop_in.string(), ToString(options.distribution.name),
                    ToString(options.distribution.name))));
  }
  const std::string header = fmt::format("plugins.\"{}\".containerd.runtimes", path[1]);
  std::string tables;
  for (const auto& [name, settings] : containerd.at("runtimes").items()) {
    AppendTable(header + "." + Json(name).dump(), settings, tables);
  }
  if (tables.find("{{") == std::string::npos && tables.find("${") == std::string::npos) {
    return tables;
  }
  return base::Fail(Unsupported(
      "NotForATemplate",
      fmt::format("{} is a template, and would take what is to be written there for its own words: "
                  "{}",
                  options.drop_in.string(), tables)));
}

// Two tables of one name keep containerd from starting.
base::Status CheckNoneIsThere(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                              int version, const EngineFiles& files) {
  if (files.drop_in && files.drop_in->find(kBegin) != std::string::npos) return {};
  TRY_ASSIGN(const Json root, codec::ParseToml(files.config.value_or(""), options.config.string()));
  const Json* cri = FindTable(root, version);
  for (const auto& runtime : runtimes) {
    if (cri == nullptr || !codec::Find(*cri, {"containerd", "runtimes", runtime.name})) continue;
    return base::Fail(Unsupported(
        "RuntimeIsThere",
        fmt::format("{} has a runtime {} already, by {} or by a program that {} found: take that "
                    "away, set NVIDIA_RUNTIME_NAME, or (k3s, RKE2) install the toolkit into "
                    "/usr/local/nvidia, where it is found",
                    options.config.string(), runtime.name, options.drop_in.string(),
                    ToString(options.distribution.name))));
  }
  return {};
}

base::Result<std::vector<FileContent>> PlanTemplate(const EngineOptions& options,
                                                    const std::vector<Runtime>& runtimes,
                                                    const ContainerdBasis& basis,
                                                    const EngineFiles& files) {
  TRY(CheckNoneIsThere(options, runtimes, basis.version, files));
  const Json* cri = FindTable(basis.config, basis.version);
  const Json* cdi = cri != nullptr ? codec::Find(*cri, {"enable_cdi"}) : nullptr;
  if (basis.writes_cdi && (cdi == nullptr || *cdi != Json(true))) {
    return base::Fail(Unsupported(
        "CdiInTemplate",
        fmt::format("containerd has CDI switched off, and it cannot be switched on in {}, whose "
                    "tables {} writes: set enable_cdi = true there, or RUNTIME_ENABLE_CDI=false",
                    options.drop_in.string(), ToString(options.distribution.name))));
  }
  TRY_ASSIGN(const std::string tables, TemplateTables(options, runtimes, basis));
  TRY_ASSIGN(std::string text, PutIntoTemplate(files.drop_in, tables));
  return std::vector<FileContent>{{options.drop_in, std::move(text)}};
}

std::vector<FileContent> PlanDropIn(const EngineOptions& options,
                                    const std::vector<Runtime>& runtimes,
                                    const ContainerdBasis& basis, mode_t root_mode) {
  Json drop_in = Json::object();
  mode_t most_mode = FileContent().most_mode;
  // k0s merges the tables of its drop-ins itself, and stops at a version that it does not want.
  if (options.distribution.name != Distribution::kK0s) {
    if (basis.names_version) drop_in["version"] = basis.version;
    const Json* cri = FindTable(basis.config, basis.version);
    // containerd before 2.0 takes the last file's table as a whole.
    if (basis.version < 3 && !basis.is_deep && cri != nullptr) {
      const auto path = CriTablePath(basis.version);
      drop_in[path[0]][path[1]] = *cri;
      most_mode = ModeOfCopy(*cri, root_mode);
    }
  }
  AddRuntimes(drop_in, basis, options, runtimes);
  return {{options.drop_in, codec::ToTomlText(drop_in), most_mode}};
}

// Seconds and nanoseconds; of a link its own.
std::optional<std::pair<std::int64_t, std::int64_t>> ChangedAt(const std::filesystem::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair<std::int64_t, std::int64_t>(status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

struct Block {
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;  // behind it
};

base::Result<Block> FindBlock(const std::string& text) {
  Block block{text.find(kBegin), text.find(kEnd)};
  if (block.begin == std::string::npos && block.end == std::string::npos) return block;
  if (block.begin == std::string::npos || block.end == std::string::npos ||
      block.end < block.begin) {
    return base::Fail(base::Invalid(
        "TemplateBroken",
        fmt::format("a template of containerd has one of the lines \"{}\" and \"{}\" without the "
                    "other in its place: take the runtimes of the toolkit out by hand",
                    kBegin.substr(0, kBegin.size() - 1), kEnd.substr(0, kEnd.size() - 1))));
  }
  block.end += kEnd.size();
  return block;
}

// The last line may lack its end, and be one of ours.
std::string WithLineEnd(std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

}  // namespace

base::Result<std::string> PutIntoTemplate(const std::optional<std::string>& text,
                                          const std::string& tables) {
  const std::string whole = WithLineEnd(text.value_or(std::string(kNewTemplate)));
  TRY_ASSIGN(const Block block, FindBlock(whole));
  const std::string ours = std::string(kBegin) + tables + std::string(kEnd);
  if (block.begin != std::string::npos) {
    return whole.substr(0, block.begin) + ours + whole.substr(block.end);
  }
  return whole + ours;
}

base::Result<std::optional<std::string>> TakeFromTemplate(const std::string& text) {
  const std::string whole = WithLineEnd(text);
  TRY_ASSIGN(const Block block, FindBlock(whole));
  if (block.begin == std::string::npos) return text;
  std::string rest = whole.substr(0, block.begin) + whole.substr(block.end);
  if (rest == kNewTemplate) return std::nullopt;
  return rest;
}

base::Result<std::vector<FileContent>> PlanDistributionSetup(const EngineOptions& options,
                                                             const std::vector<Runtime>& runtimes,
                                                             const Json& source,
                                                             const EngineFiles& files) {
  if (options.distribution.placement == Placement::kFoundByItself) {
    return std::vector<FileContent>{};
  }
  TRY_ASSIGN(const ContainerdBasis basis, ChooseBasis(options, source, files.config));
  return options.distribution.placement == Placement::kTemplate
             ? PlanTemplate(options, runtimes, basis, files)
             : PlanDropIn(options, runtimes, basis, files.config_mode);
}

base::Result<std::vector<FileContent>> PlanDistributionCleanup(const EngineOptions& options,
                                                               const EngineFiles& files) {
  if (options.distribution.placement == Placement::kFoundByItself || !files.drop_in) {
    return std::vector<FileContent>{};
  }
  if (options.distribution.placement == Placement::kDropIn) {
    return std::vector<FileContent>{{options.drop_in, std::nullopt}};
  }
  TRY_ASSIGN(auto text, TakeFromTemplate(*files.drop_in));
  return std::vector<FileContent>{{options.drop_in, std::move(text)}};
}

base::Result<bool> HasToLook(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                             const EngineFiles& files) {
  if (options.distribution.placement != Placement::kFoundByItself) return false;
  TRY_ASSIGN(const Json root, codec::ParseToml(files.config.value_or(""), options.config.string()));
  const auto has = CheckEffective(options, runtimes, root);
  if (has) return false;
  // It writes its root file at every start. One that is younger than our programs was written in
  // their presence: another restart would not help, and would not be the last.
  const host::Root node(options.host_root);
  const auto started = ChangedAt(options.config);
  const bool looked = started && std::ranges::all_of(runtimes, [&](const Runtime& runtime) {
                        const auto installed = ChangedAt(node.At(runtime.path));
                        return installed && *installed < *started;
                      });
  if (!looked) return true;
  return base::Fail(base::Invalid(
      "RuntimesNotFound",
      fmt::format("{} has started since the toolkit is in {}, and did not find it: {}. Set "
                  "CONTAINERD_CONFIG and RUNTIME_DROP_IN_CONFIG to files that it reads",
                  ToString(options.distribution.name), runtimes.front().path,
                  has.error().message)));
}

}  // namespace pitcrew::node::toolkit

#include "node/toolkit/installation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "api/labels.h"
#include "base/file.h"
#include "base/log.h"
#include "codec/toml.h"
#include "node/toolkit/config_document.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;
namespace fs = std::filesystem;

constexpr std::string_view kShim = "nvidia-container-runtime";
constexpr std::string_view kConfigFolder = ".config";
constexpr std::string_view kRuntimeConfig = "nvidia-container-runtime/config.toml";

struct Link {
  std::string_view name;
  std::string_view target;
};
constexpr Link kLinks[] = {
    {"nvidia-container-runtime.cdi", kShim},
    {"nvidia-container-runtime.legacy", kShim},
    {"nvidia-container-runtime-hook", kShim},
    {"nvidia-container-toolkit", "nvidia-container-runtime-hook"},
    {"nvidia-cdi-hook", kShim},
    {"nvidia-ctk", kShim},
};

// "@" marks a program of the host; a distribution's wrapper is passed by (3.2, "normalisation").
std::string LdconfigPath(const std::string& driver_root) {
  const std::string plain = (fs::path(driver_root) / "sbin/ldconfig").string();
  std::error_code ignored;
  return "@" + (fs::exists(plain + ".real", ignored) ? plain + ".real" : plain);
}

void SetIfGiven(Json& table, const char* key, const std::optional<std::string>& value) {
  if (value && !value->empty()) table[key] = *value;
}

base::Status InstallFile(const fs::path& path, const std::string& content, mode_t mode) {
  const auto current = base::ReadFile(path);
  std::error_code ignored;
  const bool is_link = fs::is_symlink(path, ignored);
  const auto permissions = static_cast<mode_t>(fs::status(path, ignored).permissions());
  if (current && *current == content && !is_link && permissions == mode) return {};
  base::LogInfo("Installing", {{"file", path.string()}});
  return base::WriteFileAtomically(path, content, mode);
}

base::Status InstallLink(const fs::path& path, const std::string& target) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && fs::read_symlink(path, ignored) == target) return {};
  const fs::path fresh = path.string() + ".new";
  fs::remove(fresh, ignored);
  if (::symlink(target.c_str(), fresh.c_str()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return base::Fail(base::FromErrno(errno, "make link " + path.string()));
  }
  return {};
}

bool IsOurs(const std::string& name) {
  return name == kShim || name == kConfigFolder ||
         std::ranges::find(kLinks, name, &Link::name) != std::end(kLinks);
}

// What another version or NVIDIA's own toolkit put here is not used by anything any more.
void RemoveLeftovers(const fs::path& folder) {
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    if (IsOurs(entry.path().filename().string())) continue;
    std::error_code not_removed;
    fs::remove_all(entry.path(), not_removed);
    base::LogInfo("Removed what an earlier installation left", {{"file", entry.path().string()}});
  }
}

}  // namespace

base::Result<std::string> InstalledLowLevel(const fs::path& toolkit_folder) {
  const fs::path path = toolkit_folder / kConfigFolder / kRuntimeConfig;
  const auto text = base::ReadFile(path);
  if (!text && text.error().code == base::Code::kNotFound) return std::string();
  if (!text) return base::Fail(text.error());
  const auto config = codec::ParseToml(*text, path.string());
  if (!config) return std::string();
  const Json* runtimes = codec::Find(*config, {"nvidia-container-runtime", "runtimes"});
  if (runtimes == nullptr || !runtimes->is_array() || runtimes->empty()) return std::string();
  return runtimes->front().is_string() ? runtimes->front().get<std::string>() : "";
}

std::string RuntimeConfigText(const Options& options,
                              const std::vector<std::string>& low_level_runtimes) {
  const auto& runtime = options.runtime;
  const fs::path folder = options.toolkit_folder();
  Json config = ConfigDocument::Defaults().values();
  config["accept-nvidia-visible-devices-as-volume-mounts"] = runtime.accept_devices_as_mounts;
  config["accept-nvidia-visible-devices-envvar-when-unprivileged"] =
      runtime.accept_env_when_unprivileged;
  Json& cli = config["nvidia-container-cli"];
  cli["ldconfig"] = LdconfigPath(options.driver_root);
  cli["path"] = (folder / "nvidia-container-cli").string();
  cli["root"] = options.driver_root;
  cli["user"] = "";
  SetIfGiven(cli, "debug", runtime.cli_debug);
  Json& section = config["nvidia-container-runtime"];
  section["runtimes"] = low_level_runtimes;
  SetIfGiven(section, "debug", runtime.debug);
  SetIfGiven(section, "log-level", runtime.log_level);
  SetIfGiven(section, "mode", runtime.mode);
  Json& cdi = section["modes"]["cdi"];
  SetIfGiven(cdi, "default-kind", runtime.default_kind);
  if (runtime.annotation_prefixes) cdi["annotation-prefixes"] = *runtime.annotation_prefixes;
  Json& hook = config["nvidia-container-runtime-hook"];
  hook["path"] = (folder / "nvidia-container-runtime-hook").string();
  hook["skip-mode-detection"] = runtime.skip_mode_detection;
  config["nvidia-ctk"]["path"] = (folder / "nvidia-ctk").string();
  for (const auto& feature : runtime.opt_in_features) config["features"][feature] = true;
  return codec::ToTomlText(config);
}

base::Result<fs::path> FindShim(const Options& options) {
  std::vector<fs::path> candidates;
  if (!options.source_root.empty()) {
    candidates.push_back(options.source_root / "usr/bin" / kShim);
  } else {
    std::error_code problem;
    const auto self = fs::read_symlink("/proc/self/exe", problem);
    if (!problem) candidates.push_back(self.parent_path() / kShim);
    candidates.push_back(fs::path("/usr/bin") / kShim);
  }
  std::string searched;
  for (const auto& candidate : candidates) {
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored)) return candidate;
    searched += (searched.empty() ? "" : ", ") + candidate.string();
  }
  return base::Fail(base::NotFound("ShimNotFound", fmt::format("there is no {}", searched)));
}

base::Status Install(const Options& options, const std::vector<std::string>& low_level_runtimes) {
  const fs::path folder = options.toolkit_folder();
  TRY_ASSIGN(const auto shim, FindShim(options));
  TRY_ASSIGN(const std::string content, base::ReadFile(shim));
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem)
    return base::Fail(base::FromErrno(problem.value(), "make folder " + folder.string()));
  // The configuration first: a new shim never meets an old one's.
  TRY(InstallFile(folder / kConfigFolder / kRuntimeConfig,
                  RuntimeConfigText(options, low_level_runtimes), 0644));
  TRY(InstallFile(folder / kShim, content, 0755));
  for (const auto& link : kLinks) TRY(InstallLink(folder / link.name, std::string(link.target)));
  RemoveLeftovers(folder);
  return {};
}

}  // namespace pitcrew::node::toolkit

#include "shim/config.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"
#include "codec/toml.h"

namespace pitcrew::shim {
namespace {

using codec::Json;
using Path = std::initializer_list<std::string_view>;

constexpr const char* kRelative = "nvidia-container-runtime/config.toml";

class Reader {
 public:
  Reader(const Json& json, std::string_view source) : json_(json), source_(source) {}

  void Read(Path path, bool& to) {
    if (const Json* value = Find(path)) {
      value->is_boolean() ? void(to = value->get<bool>()) : Fail(path, "true or false");
    }
  }
  void Read(Path path, std::string& to) {
    if (const Json* value = Find(path)) {
      value->is_string() ? void(to = value->get<std::string>()) : Fail(path, "text");
    }
  }
  template <class Text>
  void Read(Path path, std::vector<Text>& to) {
    const Json* value = Find(path);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(path, "a list");
    std::vector<Text> items;
    for (const auto& item : *value) {
      if (!item.is_string()) return Fail(path, "a list of texts");
      items.emplace_back(item.get<std::string>());
    }
    to = std::move(items);
  }
  [[nodiscard]] base::Status Finish() const {
    if (problem_.empty()) return {};
    return base::Fail(base::Invalid("InvalidConfig", problem_));
  }

 private:
  const Json* Find(Path path) { return codec::Find(json_, path); }
  void Fail(Path path, std::string_view expected) {
    std::string name;
    for (const auto part : path) name += (name.empty() ? "" : ".") + std::string(part);
    if (problem_.empty()) problem_ = fmt::format("{}: {} must be {}", source_, name, expected);
  }

  const Json& json_;
  std::string source_;
  std::string problem_;
};

}  // namespace

base::Result<Config> ParseConfig(std::string_view text, std::string_view source) {
  TRY_ASSIGN(const Json json, codec::ParseToml(text, source));
  Config config;
  Reader in(json, source);
  constexpr std::string_view kRuntime = "nvidia-container-runtime";
  in.Read({"accept-nvidia-visible-devices-envvar-when-unprivileged"},
          config.accept_env_when_unprivileged);
  in.Read({"accept-nvidia-visible-devices-as-volume-mounts"}, config.accept_devices_as_mounts);
  std::string swarm;
  in.Read({"swarm-resource"}, swarm);
  config.swarm_resources = base::SplitTrimmed(swarm, ',');
  in.Read({kRuntime, "debug"}, config.debug_log);
  in.Read({kRuntime, "log-level"}, config.log_level);
  in.Read({kRuntime, "runtimes"}, config.runtimes);
  in.Read({kRuntime, "mode"}, config.mode);
  in.Read({kRuntime, "modes", "cdi", "annotation-prefixes"}, config.annotation_prefixes);
  in.Read({kRuntime, "modes", "cdi", "default-kind"}, config.default_kind);
  in.Read({kRuntime, "modes", "cdi", "spec-dirs"}, config.spec_folders);
  in.Read({"nvidia-container-runtime-hook", "skip-mode-detection"}, config.skip_mode_detection);
  TRY(in.Finish());
  return config;
}

std::filesystem::path ProgramFolder() {
  std::error_code problem;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", problem);
  return problem ? std::filesystem::path() : program.parent_path();
}

std::filesystem::path ConfigPath(const std::filesystem::path& program_folder) {
  if (!program_folder.empty()) {
    const auto installed = program_folder / ".config" / kRelative;
    std::error_code ignored;
    if (std::filesystem::exists(installed, ignored)) return installed;
  }
  if (const char* path = std::getenv("NVIDIA_CTK_CONFIG_FILE_PATH"); path != nullptr && *path) {
    return path;
  }
  if (const char* folder = std::getenv("XDG_CONFIG_HOME"); folder != nullptr && *folder) {
    return std::filesystem::path(folder) / kRelative;
  }
  return std::filesystem::path("/etc") / kRelative;
}

base::Result<Config> LoadConfig(const std::filesystem::path& path) {
  const auto text = base::ReadFile(path);
  if (!text && text.error().code == base::Code::kNotFound) return Config{};
  if (!text) return base::Fail(text.error());
  return ParseConfig(*text, path.string());
}

}  // namespace pitcrew::shim

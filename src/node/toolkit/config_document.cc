#include "node/toolkit/config_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "api/labels.h"
#include "base/file.h"
#include "base/strings.h"
#include "codec/toml.h"
#include "host/os_release.h"
#include "host/root.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

enum class Kind { kText, kSwitch, kList };

struct Key {
  std::string_view name;
  Kind kind;
};

constexpr std::string_view kFeatures = "features.";

constexpr auto kKeys = std::to_array<Key>({
    {"accept-nvidia-visible-devices-as-volume-mounts", Kind::kSwitch},
    {"accept-nvidia-visible-devices-envvar-when-unprivileged", Kind::kSwitch},
    {"disable-require", Kind::kSwitch},
    {"supported-driver-capabilities", Kind::kText},
    {"swarm-resource", Kind::kText},
    {"features.allow-cuda-compat-libs-from-container", Kind::kSwitch},
    {"features.allow-ldconfig-from-container", Kind::kSwitch},
    {"features.allow-unknown-oci-spec-fields", Kind::kSwitch},
    {"features.disable-cuda-compat-lib-hook", Kind::kSwitch},
    {"features.disable-imex-channel-creation", Kind::kSwitch},
    {"features.ignore-imex-channel-requests", Kind::kSwitch},
    {"features.no-additional-gids-for-device-nodes", Kind::kSwitch},
    {"nvidia-container-cli.debug", Kind::kText},
    {"nvidia-container-cli.environment", Kind::kList},
    {"nvidia-container-cli.ldcache", Kind::kText},
    {"nvidia-container-cli.ldconfig", Kind::kText},
    {"nvidia-container-cli.load-kmods", Kind::kSwitch},
    {"nvidia-container-cli.no-cgroups", Kind::kSwitch},
    {"nvidia-container-cli.no-pivot", Kind::kSwitch},
    {"nvidia-container-cli.path", Kind::kText},
    {"nvidia-container-cli.root", Kind::kText},
    {"nvidia-container-cli.user", Kind::kText},
    {"nvidia-container-runtime.debug", Kind::kText},
    {"nvidia-container-runtime.log-level", Kind::kText},
    {"nvidia-container-runtime.mode", Kind::kText},
    {"nvidia-container-runtime.runtimes", Kind::kList},
    {"nvidia-container-runtime.modes.cdi.annotation-prefixes", Kind::kList},
    {"nvidia-container-runtime.modes.cdi.default-kind", Kind::kText},
    {"nvidia-container-runtime.modes.cdi.spec-dirs", Kind::kList},
    {"nvidia-container-runtime.modes.csv.compat-container-root", Kind::kText},
    {"nvidia-container-runtime.modes.csv.mount-spec-path", Kind::kText},
    {"nvidia-container-runtime.modes.jit-cdi.nvcdi-disable-hooks", Kind::kList},
    {"nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags", Kind::kList},
    {"nvidia-container-runtime.modes.legacy.cuda-compat-mode", Kind::kText},
    {"nvidia-container-runtime-hook.path", Kind::kText},
    {"nvidia-container-runtime-hook.skip-mode-detection", Kind::kSwitch},
    {"nvidia-ctk.path", Kind::kText},
});

// Written as a comment where nobody has set the key (3.3).
struct Hint {
  std::string_view key;
  Json value;
};

const std::vector<Hint>& Hints() {
  static const std::vector<Hint> hints = {
      {"accept-nvidia-visible-devices-as-volume-mounts", false},
      {"accept-nvidia-visible-devices-envvar-when-unprivileged", true},
      {"swarm-resource", "DOCKER_RESOURCE_GPU"},
      {"nvidia-container-cli.debug", "/var/log/nvidia-container-toolkit.log"},
      {"nvidia-container-cli.ldcache", "/etc/ld.so.cache"},
      {"nvidia-container-cli.no-cgroups", false},
      {"nvidia-container-cli.path", "/usr/bin/nvidia-container-cli"},
      {"nvidia-container-cli.root", "/run/nvidia/driver"},
      {"nvidia-container-cli.user", "root:video"},
      {"nvidia-container-runtime.debug", "/var/log/nvidia-container-runtime.log"},
  };
  return hints;
}

Json::json_pointer PointerTo(std::string_view key) {
  return Json::json_pointer("/" + base::ReplaceAll(std::string(key), ".", "/"));
}

bool IsSuse(const host::Root& root) {
  const auto release = host::ReadOsRelease(root.At("/etc/os-release"));
  if (!release) return false;
  const auto words = base::SplitTrimmed(release->Get("ID_LIKE"), ' ');
  return std::ranges::any_of(words,
                             [](const auto& word) { return word == "suse" || word == "opensuse"; });
}

void CollectKeys(const Json& table, const std::string& path,
                 std::set<std::string, std::less<>>& keys) {
  for (const auto& [name, value] : table.items()) {
    const std::string key = path.empty() ? name : path + "." + name;
    if (value.is_object()) {
      CollectKeys(value, key, keys);
    } else {
      keys.insert(key);
    }
  }
}

base::Error BadValue(std::string_view assignment, std::string_view what) {
  return base::Invalid("BadValue", fmt::format("--set {}: {}", assignment, what));
}

std::vector<std::string> SplitList(const std::string& text, char separator) {
  for (const char one : {separator, ','}) {
    if (text.find(one) != std::string::npos) return base::Split(text, one);
  }
  return {text};
}

base::Result<Json> ParseValue(const Key& key, std::string_view assignment, char separator) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    if (key.kind == Kind::kSwitch) return Json(true);
    return base::Fail(BadValue(assignment, "write KEY=VALUE"));
  }
  const std::string text(assignment.substr(equals + 1));
  switch (key.kind) {
    case Kind::kText:
      return Json(text);
    case Kind::kList:
      return Json(SplitList(text, separator));
    case Kind::kSwitch:
      break;
  }
  const auto value = base::ParseGoBool(text);
  if (!value) return base::Fail(BadValue(assignment, "the value is neither true nor false"));
  return Json(*value);
}

}  // namespace

ConfigDocument ConfigDocument::Defaults(const std::filesystem::path& root) {
  const host::Root node(root);
  const bool wrapped = host::Exists(node.At("/sbin/ldconfig.real")).value_or(false);
  Json values = {
      {"accept-nvidia-visible-devices-as-volume-mounts", false},
      {"accept-nvidia-visible-devices-envvar-when-unprivileged", true},
      {"disable-require", false},
      {"supported-driver-capabilities", "compat32,compute,display,graphics,ngx,utility,video"},
      {"swarm-resource", ""}};
  values["nvidia-container-cli"] = {
      {"debug", ""},
      {"environment", Json::array()},
      {"ldcache", ""},
      {"ldconfig", wrapped ? "@/sbin/ldconfig.real" : "@/sbin/ldconfig"},
      {"load-kmods", true},
      {"no-cgroups", false},
      {"path", ""},
      {"root", ""},
      {"user", IsSuse(node) ? "root:video" : ""}};
  values["nvidia-container-runtime"] = {{"debug", "/dev/null"},
                                        {"log-level", "info"},
                                        {"mode", "auto"},
                                        {"runtimes", {"runc", "crun"}}};
  Json& modes = values["nvidia-container-runtime"]["modes"];
  modes["cdi"] = {{"annotation-prefixes", Json::array({api::kCdiAnnotationPrefix})},
                  {"default-kind", "nvidia.com/gpu"},
                  {"spec-dirs", {"/etc/cdi", "/var/run/cdi"}}};
  modes["csv"] = {{"mount-spec-path", "/etc/nvidia-container-runtime/host-files-for-container.d"}};
  modes["legacy"] = {{"cuda-compat-mode", "ldconfig"}};
  values["nvidia-container-runtime-hook"] = {{"path", "nvidia-container-runtime-hook"},
                                             {"skip-mode-detection", false}};
  values["nvidia-ctk"] = {{"path", "nvidia-ctk"}};
  return ConfigDocument(std::move(values));
}

base::Result<ConfigDocument> ConfigDocument::Parse(std::string_view text, std::string_view source) {
  TRY_ASSIGN(auto values, codec::ParseToml(text, source));
  ConfigDocument document(std::move(values));
  CollectKeys(document.values_, "", document.explicit_);
  return document;
}

base::Result<ConfigDocument> ConfigDocument::Read(const std::filesystem::path& file) {
  const auto text = base::ReadFile(file);
  if (text) return Parse(*text, file.string());
  if (text.error().code == base::Code::kNotFound) return Defaults();
  return base::Fail(text.error());
}

base::Status ConfigDocument::Set(std::string_view assignment, char separator) {
  const auto name = assignment.substr(0, assignment.find('='));
  const auto* const key = std::ranges::find(kKeys, name, &Key::name);
  if (key == kKeys.end()) {
    return base::Fail(base::Invalid("UnknownOption",
                                    fmt::format("--set {}: there is no such option", assignment)));
  }
  if (name.starts_with(kFeatures) && assignment.ends_with("=nil")) {
    if (const auto table = values_.find("features"); table != values_.end()) {
      table->erase(std::string(name.substr(kFeatures.size())));
    }
    explicit_.erase(std::string(name));
    return {};
  }
  TRY_ASSIGN(auto value, ParseValue(*key, assignment, separator));
  Json changed = values_;
  try {
    changed[PointerTo(name)] = std::move(value);
  } catch (const Json::exception&) {
    return base::Fail(BadValue(assignment, "the file has a value where a table belongs"));
  }
  values_ = std::move(changed);
  explicit_.insert(std::string(name));
  return {};
}

std::string ConfigDocument::Text(std::string_view key) const {
  const auto pointer = PointerTo(key);
  if (!values_.contains(pointer)) return "";
  const Json& value = values_.at(pointer);
  return value.is_string() ? value.get<std::string>() : "";
}

std::string ConfigDocument::ToText() const {
  Json shown = values_;
  std::set<std::string, std::less<>> comments;
  for (const auto& hint : Hints()) {
    if (explicit_.contains(hint.key)) continue;
    const auto pointer = PointerTo(hint.key);
    const auto above = pointer.parent_pointer();
    if (shown.contains(above) && !shown.at(above).is_object()) continue;
    // On SUSE the user is a default that counts.
    if (hint.key == "nvidia-container-cli.user" && Json(Text(hint.key)) == hint.value) continue;
    shown[pointer] = hint.value;
    comments.emplace(hint.key);
  }
  std::string text;
  std::string table;
  const auto lines = base::Split(codec::ToTomlText(shown), '\n');
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::string line(base::Trim(lines[i]));
    if (line.starts_with('[')) {
      table = base::ReplaceAll(base::ReplaceAll(line, "[", ""), "]", "") + ".";
    }
    const std::string key = table + line.substr(0, line.find(" = "));
    text += (comments.contains(key) ? "#" : "") + line + "\n";
  }
  return text;
}

}  // namespace pitcrew::node::toolkit

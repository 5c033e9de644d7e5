#include "shim/config_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace pitcrew::shim {
namespace {

using codec::Json;
namespace fs = std::filesystem;

constexpr const char* kNoCli = "libnvidia-container is not used";
constexpr const char* kOwnHook = "the runtime adds no prestart hook";
constexpr const char* kAtWriting =
    "specifications are written beforehand; give it to nvidia-ctk cdi generate";

struct Member {
  std::string_view name;
  const char* why = nullptr;  // nullptr: it is heeded
  // Values that change nothing, "|" between them; of a list none.
  std::string_view harmless = "";
};

constexpr std::string_view kSkipModeDetection = "nvidia-container-runtime-hook.skip-mode-detection";

constexpr auto kMembers = std::to_array<Member>({
    {"accept-nvidia-visible-devices-as-volume-mounts"},
    {"accept-nvidia-visible-devices-envvar-when-unprivileged"},
    {"disable-require"},
    {"supported-driver-capabilities"},
    {"swarm-resource"},
    {"features.allow-cuda-compat-libs-from-container"},
    {"features.allow-ldconfig-from-container"},
    {"features.allow-unknown-oci-spec-fields", "they are always allowed", "true"},
    {"features.disable-cuda-compat-lib-hook"},
    {"features.disable-imex-channel-creation", "channels are never created", "true"},
    {"features.ignore-imex-channel-requests"},
    {"features.no-additional-gids-for-device-nodes"},
    {"nvidia-container-cli.debug"},
    {"nvidia-container-cli.environment", kNoCli},
    {"nvidia-container-cli.ldcache", kNoCli},
    {"nvidia-container-cli.ldconfig", "the loader's cache is written without a program"},
    // By default on, and never done: modules are loaded by who installs the driver.
    {"nvidia-container-cli.load-kmods"},
    {"nvidia-container-cli.no-cgroups"},
    {"nvidia-container-cli.no-pivot", kNoCli, "false"},
    {"nvidia-container-cli.path", kNoCli, "nvidia-container-cli"},
    {"nvidia-container-cli.root"},
    // The second is what SUSE's packages set.
    {"nvidia-container-cli.user", kNoCli, "root:video"},
    {"nvidia-container-runtime.debug"},
    {"nvidia-container-runtime.log-level"},
    {"nvidia-container-runtime.mode"},
    {"nvidia-container-runtime.runtimes"},
    {"nvidia-container-runtime.modes.cdi.annotation-prefixes"},
    {"nvidia-container-runtime.modes.cdi.default-kind"},
    {"nvidia-container-runtime.modes.cdi.spec-dirs"},
    {"nvidia-container-runtime.modes.csv.compat-container-root", kAtWriting},
    {"nvidia-container-runtime.modes.csv.mount-spec-path"},
    {"nvidia-container-runtime.modes.jit-cdi.nvcdi-disable-hooks"},
    {"nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags"},
    {"nvidia-container-runtime.modes.legacy.cuda-compat-mode",
     "mount has the effect of ldconfig, and other words that of disabled",
     "disabled|hook|ldconfig"},
    {"nvidia-container-runtime-hook.path", kOwnHook, "nvidia-container-runtime-hook"},
    {kSkipModeDetection, "the hook refuses containers that ask for GPUs in every mode", "false"},
    {"nvidia-ctk.path", "hooks are those that specifications name", "nvidia-ctk"},
});

// Flags that mean something when a specification is written only, or nothing here at all.
constexpr auto kFeatureFlags = std::to_array<Member>({
    {"disable-ipc-discoverer"},
    {"no-additional-gids-for-device-nodes"},
    {"disable-nvsandboxutils"},       // never used
    {"disable-nvsandbox-utils"},      // the same
    {"enable-coherent-annotations"},  // of specifications in files
    {"disable-multiple-csv-devices", kAtWriting},
    {"enable-explicit-driver-libraries", kAtWriting},
});

constexpr auto kHooks = std::to_array<std::string_view>(
    {"all", "chmod", "create-symlinks", "disable-device-node-modification", "enable-cuda-compat",
     "update-application-profile", "update-ldcache"});

bool IsHarmless(const Member& member, const Json& value, const fs::path& toolkit_folder) {
  if (value.is_array()) return value.empty();
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.empty()) return true;
  if (member.name.ends_with(".ldconfig")) {
    return text.ends_with("/sbin/ldconfig") || text.ends_with("/sbin/ldconfig.real");
  }
  if (member.name.ends_with(".path") && !toolkit_folder.empty() &&
      fs::path(text).parent_path() == toolkit_folder) {
    return true;
  }
  // The toolkit's own default, as upstream's is.
  if (member.name == kSkipModeDetection && !toolkit_folder.empty()) return true;
  std::string_view rest = member.harmless;
  for (;;) {
    const auto bar = rest.find('|');
    if (rest.substr(0, bar) == text) return true;
    if (bar == std::string_view::npos) return false;
    rest.remove_prefix(bar + 1);
  }
}

// A list's items, each of which is one of `known` or has no effect.
void LookAtItems(const std::string& name, const Json& list, std::vector<Unheeded>& found) {
  const bool hooks = name.ends_with("nvcdi-disable-hooks");
  if (!hooks && !name.ends_with("nvcdi-feature-flags")) return;
  for (const auto& item : list) {
    const std::string text = item.is_string() ? item.get<std::string>() : item.dump();
    if (hooks) {
      if (std::ranges::find(kHooks, text) == kHooks.end()) {
        found.push_back({name + ": " + text, "there is no such hook"});
      }
      continue;
    }
    const auto* const flag = std::ranges::find(kFeatureFlags, text, &Member::name);
    if (flag == kFeatureFlags.end()) {
      found.push_back({name + ": " + text, "there is no such feature"});
    } else if (flag->why != nullptr) {
      found.push_back({name + ": " + text, flag->why});
    }
  }
}

void LookAt(const Json& table, const std::string& path, const fs::path& toolkit_folder,
            std::vector<Unheeded>& found) {
  for (const auto& [key, value] : table.items()) {
    const std::string name = path.empty() ? key : path + "." + key;
    if (value.is_object()) {
      LookAt(value, name, toolkit_folder, found);
      continue;
    }
    const auto* const member = std::ranges::find(kMembers, name, &Member::name);
    if (member == kMembers.end()) {
      found.push_back({name, "there is no such member"});
    } else if (member->why != nullptr && !IsHarmless(*member, value, toolkit_folder)) {
      found.push_back({name, member->why});
    } else if (value.is_array()) {
      LookAtItems(name, value, found);
    }
  }
}

}  // namespace

std::vector<Unheeded> UnheededMembers(const Json& values, const fs::path& toolkit_folder) {
  std::vector<Unheeded> found;
  if (values.is_object()) LookAt(values, "", toolkit_folder, found);
  return found;
}

std::string ToText(const std::vector<Unheeded>& members, const fs::path& path) {
  std::string text = path.string() + " sets what has no effect: ";
  for (const auto& [member, why] : members) {
    text += fmt::format("{}{} ({})", text.ends_with(": ") ? "" : "; ", member, why);
  }
  return text;
}

}  // namespace pitcrew::shim

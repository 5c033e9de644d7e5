#include "shim/cdi_hook.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "oci/spec.h"
#include "shim/confinement.h"
#include "shim/cuda_compat.h"
#include "shim/ld_cache_update.h"
#include "shim/report.h"

namespace pitcrew::shim {
namespace {

using Words = std::vector<std::string>;

base::Status RunCreateSymlinks(const ContainerRoot& root, const HookFlags& flags) {
  return CreateSymlinks(root, flags.All("link"));
}

base::Status RunUpdateLdCache(const ContainerRoot& root, const HookFlags& flags) {
  return UpdateLdCache(root, flags.All("folder"));
}

base::Status RunEnableCudaCompat(const ContainerRoot& root, const HookFlags& flags) {
  return EnableCudaCompat(root,
                          {flags.Last("host-driver-version"), flags.Last("host-cuda-version"),
                           flags.Last("cuda-compat-container-root", "/usr/local/cuda/compat")});
}

base::Status RunChmod(const ContainerRoot& root, const HookFlags& flags) {
  const std::string text = flags.Last("mode");
  const bool octal =
      !text.empty() && text.size() <= 4 && text.find_first_not_of("01234567") == std::string::npos;
  if (!octal) {
    return base::Fail(base::Invalid("BadUsage", "--mode needs an octal number, for example 755"));
  }
  return ChangeModes(root, static_cast<mode_t>(std::stoul(text, nullptr, 8)), flags.All("path"));
}

base::Status RunDisableModification(const ContainerRoot& root, const HookFlags&) {
  return DisableDeviceNodeModification(root);
}

base::Status RunApplicationProfile(const ContainerRoot& root, const HookFlags&) {
  return UpdateApplicationProfile(root);
}

struct HookEntry {
  std::string_view name;
  std::vector<std::string_view> flags;
  base::Status (*run)(const ContainerRoot& root, const HookFlags& flags);
  Task task = Task::kFiles;
};

// --ldconfig-path is accepted and not needed: the cache is written without any program.
const std::vector<HookEntry>& Hooks() {
  static const std::vector<HookEntry> hooks = {
      {"create-symlinks", {"link", "container-spec"}, RunCreateSymlinks},
      {"update-ldcache", {"folder", "ldconfig-path", "container-spec"}, RunUpdateLdCache},
      {"enable-cuda-compat",
       {"host-driver-version", "host-cuda-version", "cuda-compat-container-root", "container-spec"},
       RunEnableCudaCompat},
      {"chmod", {"mode", "path", "container-spec"}, RunChmod, Task::kModes},
      {"disable-device-node-modification",
       {"container-spec"},
       RunDisableModification,
       Task::kMounts},
      {"update-application-profile", {"container-spec"}, RunApplicationProfile, Task::kModes},
  };
  return hooks;
}

base::Result<std::string> ReadState(const std::string& file) {
  return file.empty() || file == "-" ? ReadContainerState() : base::ReadFile(file);
}

// Of all of a hook's work. A container's start waits for it, and some of what it reads is the
// container's own.
constexpr unsigned kTimeLimitSeconds = 30;

// Changes are made by renaming, so nothing is left half written.
void EndAtTimeLimit(int) {
  constexpr std::string_view kText = "nvidia-cdi-hook: ended at its time limit\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(1);
}

class TimeLimit {
 public:
  TimeLimit() {
    ::signal(SIGALRM, EndAtTimeLimit);
    sigset_t alarm;  // whoever started the hook may have blocked it
    ::sigemptyset(&alarm);
    ::sigaddset(&alarm, SIGALRM);
    ::sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
    ::alarm(kTimeLimitSeconds);
  }
  ~TimeLimit() { ::alarm(0); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
};

base::Status RunHook(const HookEntry& hook, const Words& arguments) {
  const TimeLimit limit;
  TRY_ASSIGN(const auto flags, HookFlags::Parse(arguments, hook.flags));
  TRY(GiveUpPrivileges(hook.task));
  TRY_ASSIGN(const std::string state, ReadState(flags.Last("container-spec")));
  TRY_ASSIGN(const auto path, ContainerRootPath(state));
  TRY_ASSIGN(const auto root, ContainerRoot::Open(path));
  if (hook.task != Task::kMounts) TRY(ConfineTo(root));
  TRY(ForbidCalls(hook.task));
  return hook.run(root, flags);
}

void Print(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

base::Result<HookFlags> HookFlags::Parse(const Words& arguments,
                                         const std::vector<std::string_view>& known,
                                         const std::vector<std::string_view>& switches) {
  HookFlags flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view word = arguments[i];
    if (!word.starts_with('-')) {
      return base::Fail(base::Invalid("BadUsage", fmt::format("\"{}\" is not expected", word)));
    }
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    if (std::ranges::find(switches, name) != switches.end()) {
      flags.values_.emplace_back(name, equals == word.npos ? "true" : word.substr(equals + 1));
      continue;
    }
    if (std::ranges::find(known, name) == known.end()) {
      return base::Fail(base::Invalid("BadUsage", fmt::format("there is no flag --{}", name)));
    }
    if (equals == word.npos && i + 1 == arguments.size()) {
      return base::Fail(base::Invalid("BadUsage", fmt::format("--{} needs a value", name)));
    }
    flags.values_.emplace_back(
        name, equals == word.npos ? arguments[++i] : std::string(word.substr(equals + 1)));
  }
  return flags;
}

std::vector<std::string> HookFlags::All(std::string_view name) const {
  std::vector<std::string> found;
  for (const auto& [key, value] : values_) {
    if (key == name && std::ranges::find(found, value) == found.end()) found.push_back(value);
  }
  return found;
}

std::string HookFlags::Last(std::string_view name, std::string_view fallback) const {
  std::string found(fallback);
  for (const auto& [key, value] : values_) {
    if (key == name) found = value;
  }
  return found;
}

base::Result<std::filesystem::path> ContainerRootPath(std::string_view state) {
  TRY_ASSIGN(const codec::Json json, codec::ParseJson(state, "the container's state"));
  const std::filesystem::path bundle = codec::FindString(json, {"bundle"});
  std::filesystem::path root = codec::FindString(json, {"root"});
  if (root.empty()) {
    TRY_ASSIGN(const std::string text, base::ReadFile(bundle / "config.json"));
    TRY_ASSIGN(const auto spec, oci::Spec::Parse(text, (bundle / "config.json").string()));
    root = spec.root_path();
  }
  return root.empty() || root.is_absolute() ? root : bundle / root;
}

int RunCdiHook(int argc, char** argv) {
  Words words(argv + std::min(argc, 1), argv + argc);
  // Global flags before the hook's name.
  while (!words.empty() && words.front().starts_with('-')) {
    const std::string& flag = words.front();
    if (flag == "--help" || flag == "-h" || flag == "--version" || flag == "-v") {
      fmt::print("nvidia-cdi-hook {} (Pitcrew)\nhooks:", PITCREW_VERSION);
      for (const auto& hook : Hooks()) fmt::print(" {}", hook.name);
      fmt::print("\n");
      return 0;
    }
    words.erase(words.begin());
  }
  const auto hook =
      words.empty() ? Hooks().end() : std::ranges::find(Hooks(), words.front(), &HookEntry::name);
  if (hook == Hooks().end()) {
    if (!words.empty() && words.front() == "noop") return 0;
    Print(fmt::format("nvidia-cdi-hook: warning: unsupported CDI hook {} is passed over\n",
                      words.empty() ? "(none)" : OnOneLine(words.front())));
    return 0;
  }
  const auto status = RunHook(*hook, Words(words.begin() + 1, words.end()));
  if (status) return 0;
  Print(fmt::format("nvidia-cdi-hook {}: {}\n", hook->name, OnOneLine(status.error().ToString())));
  return 1;
}

}  // namespace pitcrew::shim

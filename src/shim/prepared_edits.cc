#include "shim/prepared_edits.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "cdi/driver_annotations.h"

namespace pitcrew::shim {
namespace {

// "nvidia-cdi-hook NAME ...", or "nvidia-ctk hook NAME ...".
std::string_view HookName(const cdi::Hook& hook) {
  const std::size_t at = hook.args.size() > 1 && hook.args[1] == "hook" ? 2 : 1;
  return hook.args.size() > at ? std::string_view(hook.args[at]) : "";
}

// What leads to a daemon: of all mounts of a driver only these are never executed from.
bool IsSocket(const cdi::Mount& mount) {
  return std::ranges::find(mount.options, "noexec") != mount.options.end();
}

// Its daemon has ended since the specification was written, and nothing else lacks.
bool IsGone(const cdi::Mount& mount) {
  return IsSocket(mount) && ::access(mount.host_path.c_str(), F_OK) != 0 && errno == ENOENT;
}

bool Lists(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

}  // namespace

void TakeAway(const Config& config, Mode mode, cdi::ContainerEdits& edits) {
  if (mode == Mode::kCdi) return;
  std::erase_if(edits.mounts, IsGone);
  if (!config.additional_gids) edits.additional_gids.clear();
  if (mode == Mode::kLegacy) {
    if (config.legacy_cuda_compat) return;
    std::erase_if(edits.hooks,
                  [](const cdi::Hook& hook) { return HookName(hook) == "enable-cuda-compat"; });
    return;
  }
  if (!config.sockets) std::erase_if(edits.mounts, IsSocket);
  const bool all = Lists(config.disabled_hooks, "all");
  std::erase_if(edits.hooks, [&](const cdi::Hook& hook) {
    return all || Lists(config.disabled_hooks, HookName(hook));
  });
}

bool HeedsLists(Mode mode) { return mode != Mode::kCdi && mode != Mode::kLegacy; }

base::Status CheckLists(const Config& config, Mode mode, const std::vector<cdi::Annotations>& all) {
  if (!HeedsLists(mode)) return {};
  for (const auto& annotations : all) {
    const auto found = annotations.find(std::string(cdi::kListsFolder));
    if (found == annotations.end() && mode != Mode::kCsv) continue;
    const std::string folder =
        found == annotations.end() ? std::string(cdi::kUsualListsFolder) : found->second;
    if (folder == config.csv_lists) continue;
    return base::Fail(base::Error{
        base::Code::kConflict, "OtherLists",
        fmt::format(
            "modes.csv.mount-spec-path is {}, and the specification was made from the lists "
            "in {}: write it anew (nvidia-ctk cdi generate --mode=csv "
            "--vendor=runtime.nvidia.com), or correct config.toml",
            config.csv_lists, folder)});
  }
  return {};
}

}  // namespace pitcrew::shim

#include "node/config_manager/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"

namespace pitcrew::node::config_manager {
namespace {

namespace fs = std::filesystem;

// The control group of a process's pod: that of its container, "0::/kubepods/pod7/container1",
// without the last part. In a control group namespace of its own a container is "/", and its
// neighbour "/../container2".
std::optional<std::string> PodOf(const fs::path& process) {
  const auto text = base::ReadFile(process / "cgroup");
  if (!text) return std::nullopt;
  const auto line = text->substr(0, text->find('\n'));
  const auto controllers = line.find(':');
  const auto path =
      controllers == std::string::npos ? controllers : line.find(':', controllers + 1);
  if (path == std::string::npos) return std::nullopt;
  const auto group = line.substr(path + 1);
  return group == "/" ? "/.." : group.substr(0, group.rfind('/'));
}

bool IsCalled(const fs::path& process, std::string_view name) {
  const auto words = base::ReadFile(process / "cmdline");
  if (!words) return false;
  const auto first = words->substr(0, words->find('\0'));
  return !first.empty() &&
         (first == name || fs::path(first).filename() == fs::path(name).filename());
}

}  // namespace

base::Result<pid_t> FindProcess(std::string_view name, const fs::path& proc) {
  TRY_ASSIGN(const auto entries, host::ListFolder(proc));
  std::vector<pid_t> pids;
  for (const auto& entry : entries) {
    if (const auto pid = base::ParseUnsigned(entry)) pids.push_back(static_cast<pid_t>(*pid));
  }
  std::ranges::sort(pids);
  const auto own_pod = PodOf(proc / "self");
  std::optional<pid_t> elsewhere;
  for (const auto pid : pids) {
    const auto process = proc / std::to_string(pid);
    if (!IsCalled(process, name)) continue;
    if (!own_pod || PodOf(process) == own_pod) return pid;
    if (!elsewhere) elsewhere = pid;
  }
  if (elsewhere) return *elsewhere;
  return base::Fail(
      base::NotFound("ProcessNotFound", fmt::format("no process is called \"{}\"", name)));
}

}  // namespace pitcrew::node::config_manager

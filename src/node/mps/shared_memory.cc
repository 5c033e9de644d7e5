#include "node/mps/shared_memory.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <system_error>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/mounts.h"

namespace pitcrew::node::mps {
namespace {

constexpr std::string_view kSmallest = "65536k";

}  // namespace

std::string SharedMemorySize(std::string_view meminfo) {
  constexpr std::string_view kName = "MemTotal:";
  for (const auto& line : base::Split(meminfo, '\n')) {
    if (!line.starts_with(kName)) continue;
    // "16318276 kB"
    const auto value = base::Trim(std::string_view(line).substr(kName.size()));
    std::uint64_t total = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), total);
    if (problem != std::errc()) break;
    const auto unit = base::Trim({end, value.data() + value.size()});
    return fmt::format("{}{}", total / 2, unit.substr(0, 1));
  }
  return std::string(kSmallest);
}

base::Status MountSharedMemory(const std::filesystem::path& folder,
                               const std::filesystem::path& proc) {
  TRY(host::DetachMounts(folder));
  std::error_code problem;
  // Empty once nothing is mounted there: what is not is nobody's to delete.
  std::filesystem::remove(folder, problem);
  if (!problem) std::filesystem::create_directories(folder, problem);
  if (problem) {
    return base::Fail(
        base::FromErrno(problem.value(), fmt::format("make folder {}", folder.string())));
  }
  const auto meminfo = base::ReadFile(proc / "meminfo");
  if (!meminfo) base::LogWarning("the node's memory is unknown", meminfo.error());
  const auto size = SharedMemorySize(meminfo.value_or(""));
  TRY(host::MountTmpfs(folder, "shm", "size=" + size));
  base::LogInfo("mounted shared memory", {{"folder", folder.string()}, {"size", size}});
  return {};
}

}  // namespace pitcrew::node::mps

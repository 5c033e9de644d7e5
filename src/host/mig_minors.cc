#include "host/mig_minors.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

// The number behind `prefix` ("gpu" in "gpu3").
std::optional<unsigned> NumberAfter(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const auto number = base::ParseUnsigned(text.substr(prefix.size()));
  if (!number || *number > 0xffffffffU) return std::nullopt;
  return static_cast<unsigned>(*number);
}

void AddLine(MigMinors& minors, const std::string& name, unsigned minor) {
  if (name == "config") {
    minors.config = minor;
    return;
  }
  if (name == "monitor") {
    minors.monitor = minor;
    return;
  }
  const auto parts = base::Split(name, '/');
  if (parts.size() < 3 || parts.size() > 4 || parts.back() != "access") return;
  const auto gpu = NumberAfter(parts[0], "gpu");
  const auto gpu_instance = NumberAfter(parts[1], "gi");
  if (!gpu || !gpu_instance) return;
  if (parts.size() == 3) {
    minors.gpu_instances[{*gpu, *gpu_instance}] = minor;
  } else if (const auto compute_instance = NumberAfter(parts[2], "ci")) {
    minors.compute_instances[{*gpu, *gpu_instance, *compute_instance}] = minor;
  }
}

}  // namespace

MigMinors ParseMigMinors(std::string_view text) {
  MigMinors minors;
  for (const auto& line : base::Split(text, '\n')) {
    const auto words = base::SplitTrimmed(line, ' ');
    if (words.size() != 2) continue;
    if (const auto minor = NumberAfter(words[1], "")) AddLine(minors, words[0], *minor);
  }
  return minors;
}

base::Result<std::string> ReadMigMinorsText(
    const std::vector<std::filesystem::path>& proc_folders) {
  for (const auto& proc : proc_folders) {
    auto text = base::ReadFile(proc / "driver/nvidia-caps/mig-minors");
    if (text || text.error().code != base::Code::kNotFound) return text;
  }
  return base::Fail(base::NotFound("MigMinorsMissing",
                                   "the kernel does not list MIG capabilities "
                                   "(/proc/driver/nvidia-caps/mig-minors is missing)"));
}

base::Result<MigMinors> ReadMigMinors(const std::vector<std::filesystem::path>& proc_folders) {
  const auto text = ReadMigMinorsText(proc_folders);
  if (!text && text.error().code == base::Code::kNotFound) return MigMinors();
  if (!text) return base::Fail(text.error());
  return ParseMigMinors(*text);
}

}  // namespace pitcrew::host

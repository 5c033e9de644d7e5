#include "node/metrics_exporter/job_mapping.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::metrics_exporter {
namespace {

// "3" or "3.0"
bool NamesDevice(std::string_view name) {
  const auto dot = name.find('.');
  return base::IsDigits(name.substr(0, dot)) &&
         (dot == std::string_view::npos || base::IsDigits(name.substr(dot + 1)));
}

}  // namespace

base::Result<Jobs> ReadJobs(const std::filesystem::path& folder) {
  Jobs jobs;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return jobs;
  if (error) {
    return base::Fail(
        base::FromErrno(error.value(), "read the job mappings in " + folder.string()));
  }
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (error) break;
    const auto name = entries->path().filename().string();
    if (!NamesDevice(name) || entries->is_directory(error)) continue;
    auto content = base::ReadFile(entries->path());
    // One that was removed since.
    if (!content && content.error().code == base::Code::kNotFound) continue;
    if (!content) return base::Fail(content.error());
    const auto lines = base::SplitTrimmed(*content, '\n');
    auto& of_device = jobs[name];
    for (const auto& line : lines) {
      if (std::ranges::find(of_device, line) == of_device.end()) of_device.push_back(line);
    }
  }
  return jobs;
}

void AddJobs(const Round& round, const Jobs& jobs, OwnersOf& owners) {
  owners.resize(round.entities.size());
  for (std::size_t i = 0; i < round.entities.size(); ++i) {
    const auto& entity = round.entities[i];
    if (entity.group != Group::kGpu && entity.group != Group::kLink) continue;
    const auto name =
        entity.profile.empty() ? entity.number : entity.number + "." + entity.gpu_instance;
    const auto found = jobs.find(name);
    if (found == jobs.end() || found->second.empty()) continue;
    auto& of = owners[i].of;
    if (of.empty()) of.emplace_back();
    std::vector<Owner> repeated;
    for (const auto& owner : of) {
      for (const auto& job : found->second) {
        repeated.push_back(owner);
        repeated.back().attributes.emplace_back("hpc_job", job);
      }
    }
    of = std::move(repeated);
  }
}

}  // namespace pitcrew::node::metrics_exporter

// Jobs of a batch system on GPUs, as files of one folder say (metrics-exporter.md 6.8).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/metrics_exporter/text.h"

namespace pitcrew::node::metrics_exporter {

// Job ids by the name of the file: "0" is a GPU, "3.0" an instance of it.
using Jobs = std::map<std::string, std::vector<std::string>>;

// Folders and other files are passed over. No folder: no jobs. Any other error is one.
base::Result<Jobs> ReadJobs(const std::filesystem::path& folder);

// Every owner of a device with jobs is repeated for each of them.
void AddJobs(const Round& round, const Jobs& jobs, OwnersOf& owners);

}  // namespace pitcrew::node::metrics_exporter

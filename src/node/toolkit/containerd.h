// containerd's configuration (container-toolkit.md 4.11, 4.16).
#pragma once

#include "node/toolkit/engine.h"

namespace pitcrew::node::toolkit {

base::Result<std::vector<FileContent>> PlanContainerdSetup(const EngineOptions& options,
                                                           const std::vector<Runtime>& runtimes,
                                                           const codec::Json& source,
                                                           const EngineFiles& files);
base::Result<std::vector<FileContent>> PlanContainerdCleanup(const EngineOptions& options,
                                                             const std::vector<Runtime>& runtimes,
                                                             const EngineFiles& files);

// The table below which the CRI plugin's settings lie: for version 1, 2 and 3 and above.
std::vector<std::string> CriTablePath(int version);
// Version that a configuration declares; `when_empty` for an empty one.
base::Result<int> ConfigVersion(const codec::Json& config, int when_empty);

// `text` with `pattern` added to the root list "imports": only that line changes, comments stay.
base::Result<std::string> AddImport(const std::string& text, const std::string& pattern);

}  // namespace pitcrew::node::toolkit

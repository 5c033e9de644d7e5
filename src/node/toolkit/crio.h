// CRI-O's configuration (container-toolkit.md 4.12, 4.16): a drop-in with the runtimes, or an OCI
// hook that CRI-O runs before it starts a container.
#pragma once

#include "node/toolkit/engine.h"

namespace pitcrew::node::toolkit {

base::Result<std::vector<FileContent>> PlanCrioSetup(const EngineOptions& options,
                                                     const std::vector<Runtime>& runtimes,
                                                     const codec::Json& source,
                                                     const EngineFiles& files);
base::Result<std::vector<FileContent>> PlanCrioCleanup(const EngineOptions& options,
                                                       const std::vector<Runtime>& runtimes,
                                                       const EngineFiles& files);

// What CRI-O reads of itself when it starts: crio.conf beside the root file, the root file where
// that is another one, and every file below the drop-in's folder in the order of their names; a
// runtime of a later file takes the place of an earlier one's. Its own defaults are not in it.
base::Result<codec::Json> ReadCrioFiles(const EngineOptions& options);

// The file of an OCI hook that runs `program` for every container.
std::string OciHookText(const std::filesystem::path& program);

// Whether CRI-O, whose dump this is, looks for hooks in the folder that has the hook's file. The
// dump names folders of the node, the options one that this process sees: the same file is what
// counts. Where the dump names no folders, nothing is known.
base::Status CheckHookIsRead(const EngineOptions& options, const codec::Json& dump);

}  // namespace pitcrew::node::toolkit

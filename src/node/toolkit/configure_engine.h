// Changing a container engine's configuration on a real node: read, plan, write atomically, check
// with the engine's own dump, restart only when something changed, and put everything back when the
// engine does not come back (container-toolkit.md 4.4, 4.14 to 4.16).
#pragma once

#include <chrono>
#include <filesystem>

#include "base/deadline.h"
#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// A pod that is being deleted has 30 s in all.
inline constexpr std::chrono::seconds kCleanupTime{20};

// Reads the engine's configuration from the first source that loads; an empty object when none has
// any (container-toolkit.md 4.4). kInvalid for a source that is not known.
base::Result<codec::Json> ReadEngineConfig(const EngineOptions& options);

// `source` is what ReadEngineConfig read. `state_folder` survives this process's end (the pid
// file's folder): it has a journal of the change (engine_files.h) from before the first file is
// written until the engine answers, so that the next process finishes what a killed one began, and
// can still put back what was there before both.
base::Status ConfigureEngine(const EngineOptions& options, const codec::Json& source,
                             const std::filesystem::path& toolkit_folder,
                             const std::filesystem::path& state_folder, const io::StopToken& stop);
// `deadline` is that of the engine's restart.
base::Status RestoreEngine(const EngineOptions& options,
                           const std::filesystem::path& toolkit_folder,
                           const std::filesystem::path& state_folder,
                           base::Deadline deadline = base::Deadline::After(kCleanupTime));

}  // namespace pitcrew::node::toolkit

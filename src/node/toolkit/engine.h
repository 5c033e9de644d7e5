// Configuration of a container engine as pure functions: from what its files and its own dump say
// to what its files should say (container-toolkit.md 4.5, 4.6, 4.11 to 4.13, 4.16).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// The wanted content of a file; nullopt: the file is not to be there.
struct FileContent {
  std::filesystem::path path;
  std::optional<std::string> content;
  mode_t most_mode = 07777;  // permissions beyond these it may not have
  bool is_followed = false;  // the engine sees its changes by itself, without a restart
  bool operator==(const FileContent&) const = default;
};

// Texts of the engine's files as they are; nullopt for a missing one.
struct EngineFiles {
  std::optional<std::string> config;
  std::optional<std::string> drop_in;
  std::optional<std::string> hook;
  mode_t config_mode = 07777;  // permissions of `config`, where it is there
};

struct Runtime {
  std::string name;  // in the engine
  std::string path;  // of the program
  bool is_default = false;
  bool operator==(const Runtime&) const = default;
};

// NAME, nvidia-cdi and nvidia-legacy, in this order; NAME is runtime_name, or nvidia when it is
// empty or one of the other two.
std::vector<Runtime> RuntimesFor(const EngineOptions& options,
                                 const std::filesystem::path& toolkit_folder);

// What the files should contain once our runtimes are in. `source` is the engine's configuration
// from one of its sources (an empty object when there is none). Idempotent: planned again on its
// own result it gives the same texts.
base::Result<std::vector<FileContent>> PlanSetup(const EngineOptions& options,
                                                 const std::vector<Runtime>& runtimes,
                                                 const codec::Json& source,
                                                 const EngineFiles& files);
// What they should contain once our runtimes are out again.
base::Result<std::vector<FileContent>> PlanCleanup(const EngineOptions& options,
                                                   const std::vector<Runtime>& runtimes,
                                                   const EngineFiles& files);

// Whether a program that the engine's configuration names for a runtime of our name is not ours:
// the node's image, or its administrator, has NVIDIA's runtime too.
bool IsOfTheNode(const EngineOptions& options, const std::string& program);
// Whether the engine's root file has such a one as the default.
bool HasDefaultOfTheNode(const EngineOptions& options, const codec::Json& root);

// An engine whose default is one of ours does not tell any more which was before. That one is put
// into `source` again, as the runtime whose program ours run (options.earlier_low_level): else the
// settings and the program behind ours would change at every other start, under containers that
// run.
codec::Json WithDefaultBeforeOurs(const EngineOptions& options, codec::Json source);

// Programs of the engine's default runtime (unless it is one of NVIDIA's), runc and crun as the
// configuration names them, then "runc" and "crun"; each once. `earlier`, the first of the last
// start, stays the first where `source` does not tell the default runtime's program: CRI-O that
// does not answer, whose files need not name it.
std::vector<std::string> LowLevelRuntimes(EngineKind kind, const codec::Json& source,
                                          const std::string& earlier = {});

// Whether the engine's own dump has all runtimes with their programs: the proof that the files are
// the ones which the engine reads.
base::Status CheckEffective(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                            const codec::Json& dump);

// Text of the engine's configuration to a value: TOML, or JSON for docker.
base::Result<codec::Json> ParseEngineConfig(EngineKind kind, std::string_view text,
                                            std::string_view source);

}  // namespace pitcrew::node::toolkit

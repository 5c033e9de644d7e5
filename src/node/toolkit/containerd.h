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

// What the new entries are made from.
struct ContainerdBasis {
  int version = 0;            // of the tables to write
  bool names_version = true;  // a drop-in says its version
  codec::Json config;         // a configuration of that version
  codec::Json base_runtime;   // the settings that our runtimes start from
  bool is_deep = false;       // the engine merges the tables of its files key by key
  bool writes_cdi = false;
  bool keeps_default = false;  // which is NVIDIA's runtime of the node's image
};

// The engine's root file decides on the version: `config dump` prints the newest that the engine
// knows, and a drop-in above its root either stops the engine or hides the root's settings
// (runtimes-and-distributions.md 1.4, 1.5). From version 3 on, the engine merges deeply and has CDI
// on unless it was switched off. containerd 2.0 to 2.2 read nothing of plugins.cri in a root of
// version 1, 2.3 stops at a drop-in with a higher version: so the drop-in over such a root has the
// tables of version 3 and says no version.
base::Result<ContainerdBasis> ChooseBasis(const EngineOptions& options, const codec::Json& source,
                                          const std::optional<std::string>& root_text);
// Adds our runtimes to `config`, whose CRI table lies where the basis' version says.
void AddRuntimes(codec::Json& config, const ContainerdBasis& basis, const EngineOptions& options,
                 const std::vector<Runtime>& runtimes);
// Permissions of a file with a copy of this table out of the root file: no more than that one has,
// and the owner's only where the table has passwords or tokens of registries, or headers, which can
// be either.
mode_t ModeOfCopy(const codec::Json& cri_table, mode_t root_mode);

// `text` with `pattern` added to the root list "imports": only that line changes, comments stay.
base::Result<std::string> AddImport(const std::string& text, const std::string& pattern);

}  // namespace pitcrew::node::toolkit

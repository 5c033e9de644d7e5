// Pieces of which the modes' specifications are put together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cdi/generate/driver_files.h"
#include "cdi/generate/generate.h"
#include "cdi/spec.h"

namespace pitcrew::cdi_generate {

// Adds the node with its numbers, mode and group (container-toolkit.md 6.5, "Device node
// conversion").
void AddNode(const Node& node, const Options& options, cdi::ContainerEdits& edits);

// The node's group for the container's processes, where not everybody may use the node.
void AddGroup(const Node& node, cdi::ContainerEdits& edits);

// Whether there is to be a hook of that name (container-toolkit.md 6.7).
bool IsHookEnabled(std::string_view name, const Options& options);

// Of every driver's common edits: the runtime is not to look for devices once more.
inline constexpr std::string_view kNothingVisible = "NVIDIA_VISIBLE_DEVICES=void";

// Appends a createContainer hook with arguments, unless it is disabled.
void AddHook(std::string_view name, const std::vector<std::string>& arguments,
             const Options& options, cdi::ContainerEdits& edits);

// A read-only mount of what is at `source` of the driver root, or at `path` when that is empty.
void AddMount(const std::string& path, const std::string& source, const Options& options,
              cdi::ContainerEdits& edits);

// The hooks create-symlinks, for "target::link", and update-ldcache, for the folders of those
// `mounts` that are libraries; nothing where there are none.
void AddLinksHook(const std::vector<std::string>& links, const Options& options,
                  cdi::ContainerEdits& edits);
void AddCacheHook(const std::vector<cdi::Mount>& mounts, const Options& options,
                  cdi::ContainerEdits& edits);

// The hook chmod for those of `folders` ("/dev/dri") in which nodes of `edits` lie, where it is
// enabled: an image may have made them for root alone.
void AddFolderModes(const std::vector<std::string>& folders, const Options& options,
                    cdi::ContainerEdits& edits);

// Libraries, sockets, firmware, programs, environment and their hooks: what every mode with a
// driver needs. `graphics` also adds the graphics files and links, and the pipes of MPS: all that
// is for other programs than those that manage the driver.
void AddDriver(const DriverFiles& files, const Options& options, bool graphics,
               cdi::ContainerEdits& edits);

// "target::link" arguments that recreate the links of the libraries (6.7).
std::vector<std::string> LibraryLinks(const std::vector<Library>& libraries);

// Removes repetitions, moves nothing, drops from devices what the common edits have, sorts
// (container-toolkit.md 6.11, steps 1 to 4). Devices `apart` are no part of the merged one.
void Assemble(cdi::Spec& spec, bool merged_device, std::vector<cdi::Device> apart = {});

}  // namespace pitcrew::cdi_generate

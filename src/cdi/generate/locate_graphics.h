// The graphics part of a driver's files (container-toolkit.md 6.6, "Graphics mounts").
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cdi/generate/driver_files.h"
#include "cdi/generate/locate.h"
#include "host/library_search.h"
#include "host/root.h"

namespace pitcrew::cdi_generate {

// Fills graphics and graphics_links; `files` has version and library_folders already. Whatever is
// missing is left out: most data centre drivers have no graphics.
void LocateGraphics(const LocateOptions& options, host::LibrarySearch& search, DriverFiles& files);

// Where the driver's programs are looked for. Borrows from the options.
std::vector<std::string_view> ProgramFolders(const LocateOptions& options);

// The first of <folder>/<name> that is a file, with the real file behind its links as the source
// where the root is not the machine's own.
std::optional<File> LocateFirst(const host::Root& root, std::span<const std::string_view> folders,
                                std::string_view name);

}  // namespace pitcrew::cdi_generate

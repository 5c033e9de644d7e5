// The libraries of a driver's files (container-toolkit.md 6.3).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/generate/driver_files.h"
#include "cdi/generate/locate.h"
#include "host/library_search.h"
#include "host/root.h"

namespace pitcrew::cdi_generate {

// What the options say, else what stands in the name of libcuda.so.* or libnvidia-ml.so.*.
// kNotFound "DriverVersionUnknown".
base::Result<std::string> FindVersion(const LocateOptions& options, host::LibrarySearch& search);

// Those to mount, in order; fills library_folders. `files` has its version already.
base::Result<std::vector<Library>> FindDriverLibraries(const LocateOptions& options,
                                                       host::LibrarySearch& search,
                                                       DriverFiles& files);

// SONAME, and the links of the folder, of the library at `path`; a file that is no ELF library has
// no SONAME.
void DescribeLibrary(const host::Root& root, Library& library);

}  // namespace pitcrew::cdi_generate

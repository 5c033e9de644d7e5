// What a module beside the driver's own is compiled from: its sources in this image, and the
// driver's in the folder that its container shows.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "node/driver_container/companion.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

struct CompanionSources {
  std::filesystem::path folder;
  std::string version;
};

// usr/src/<module>-<version>, where packages for DKMS have them, too. kUnsupported
// "ModuleSourcesMissing", or "ModuleSourcesUnclear" when there are several.
base::Result<CompanionSources> FindCompanionSources(const Companion& companion,
                                                    const Options& options);

struct DriverSources {
  std::filesystem::path headers;  // the folder that has nv-p2p.h
  std::filesystem::path symbols;  // Module.symvers
};

// Of the driver that is loaded, compiled as it is: with open modules or with proprietary ones.
// kUnsupported "DriverSourcesMissing": a driver of the host, and most that are precompiled, bring
// none.
base::Result<DriverSources> FindDriverSources(const Options& options);

// Whether a loaded module is the one of such sources. Some tell less of their version than their
// sources are called by (gdrdrv "2.5" of gdrdrv-2.5.1); one that tells none is taken for it.
bool IsOfSources(std::string_view loaded_version, std::string_view version);

}  // namespace pitcrew::node::driver_container

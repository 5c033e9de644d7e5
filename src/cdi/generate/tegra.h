// Mode csv: what the lists of a Tegra system name, and the devices of the system: its integrated
// GPU, and the discrete one that may stand beside it (container-toolkit.md 6.10).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "cdi/generate/driver_files.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"
#include "host/tegra.h"

namespace pitcrew::cdi_generate {

// What of the lists exists, links followed inside the driver root.
struct TegraFiles {
  std::vector<Node> nodes;
  std::vector<File> folders;
  std::vector<Library> libraries;
  std::vector<File> link_targets;    // the files behind the links
  std::vector<std::string> links;    // "target::link" of every link on the way to them
  bool has_release_file = false;     // host::kTegraRelease
  std::vector<std::string> missing;  // entries of the lists that nothing matches
};

// `ignored_links` are patterns of links that are left out (host::FitsPattern).
base::Result<TegraFiles> LocateTegra(const LocateOptions& options, const host::TegraLists& lists,
                                     const std::vector<std::string>& ignored_links);

struct TegraOptions {
  bool one_device = false;  // device 0 stands for all, whatever NVML tells
  std::string orin_compat_root = "/usr/local/cuda/compat_orin";
};

struct GeneratedTegra {
  cdi::Spec spec;
  std::optional<base::Error> undivided;  // why several GPUs are one device all the same
};

// `inventory` is null where there is no NVML, or one that does not answer; `files` needs only what
// LocateDevices finds. kInvalid "BadDeviceId" for ids that the mode does not know, kUnsupported
// "MigNotSupported" or "UnknownTegraSystem" for one of several that it cannot tell apart, kNotFound
// "NoDeviceNodes" when a device would be empty.
base::Result<GeneratedTegra> GenerateTegra(const gpu::Inventory* inventory, const TegraFiles& tegra,
                                           const DriverFiles& files, const Options& options,
                                           const TegraOptions& tegra_options);

}  // namespace pitcrew::cdi_generate

// The CDI specification of a Tegra system, from the lists of its packages (container-toolkit.md
// 6.10): what nvidia-ctk writes on request, and the installer for the runtime.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/generate/tegra.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"

namespace pitcrew::node::toolkit {

struct TegraRequest {
  cdi_generate::LocateOptions locate;
  std::vector<std::filesystem::path> lists;  // as this process sees them
  std::vector<std::string> ignored_links;
  cdi_generate::TegraOptions tegra;
  // Of the lists, as the node names it. A specification for our runtime says it: the runtime looks
  // whether these are the lists that its configuration names.
  std::string lists_folder;
};

// `inventory` is null where NVML tells nothing. What is missing or not understood is in the log.
base::Result<cdi::Spec> GenerateTegraSpec(const gpu::Inventory* inventory,
                                          const TegraRequest& request,
                                          const cdi_generate::Options& options);

// The lists where NVIDIA's packages put them, below a root that this process sees.
std::vector<std::filesystem::path> TegraListsBelow(const host::Root& root);

}  // namespace pitcrew::node::toolkit

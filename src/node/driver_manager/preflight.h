// What a driver container will miss on this node, told before anything is touched
// (driver-lifecycle.md 12.2, number 41: upstream's preflight_check looks at nothing).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/observed.h"
#include "host/module_policy.h"
#include "host/os_release.h"
#include "node/driver_manager/options.h"

namespace pitcrew::node::driver_manager {

struct BuildFacts {
  host::ModulePolicy modules{};
  std::string system{};  // ID of os-release; "" when it cannot be read
  // Of Red Hat, for the repositories that have the kernel's headers.
  base::Observed<bool> entitled = base::Observed<bool>::Missing();
  base::Observed<std::uint64_t> free_bytes = base::Observed<std::uint64_t>::Missing();
};
BuildFacts ReadBuildFacts(const Options& options);

// Reasons are stable: UnsignedModulesRefused, EntitlementMissing, LittleSpace. What is unknown is
// no obstacle, and none of them ends the run: precompiled modules, keys of one's own and other
// repositories are ways out that cannot be seen from here.
std::vector<base::Error> FindBuildObstacles(const BuildFacts& facts);

}  // namespace pitcrew::node::driver_manager

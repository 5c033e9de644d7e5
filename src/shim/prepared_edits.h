// What config.toml takes away from the edits that the toolkit has prepared. Upstream's runtime
// makes them anew for each container, with these members.
#pragma once

#include "base/result.h"
#include "cdi/spec.h"
#include "shim/config.h"
#include "shim/requests.h"

namespace pitcrew::shim {

// Nothing in mode cdi, whose specifications are anybody's. Also mounts of daemons' sockets and
// pipes that are not there any more: no container would start.
void TakeAway(const Config& config, Mode mode, cdi::ContainerEdits& edits);

// Whether modes.csv.mount-spec-path says anything in this mode.
bool HeedsLists(Mode mode);
// kConflict "OtherLists" when the edits were made from other lists of a Tegra system than
// modes.csv.mount-spec-path names. `all` as Registry::FindAnnotations gives them.
base::Status CheckLists(const Config& config, Mode mode, const std::vector<cdi::Annotations>& all);

}  // namespace pitcrew::shim

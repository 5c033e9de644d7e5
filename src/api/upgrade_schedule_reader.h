// Reads upgrade_schedule.h out of a ClusterPolicy.
#pragma once

#include <vector>

#include "api/block.h"
#include "api/cluster_policy.h"
#include "api/upgrade_schedule.h"
#include "codec/json.h"

namespace pitcrew::api {

// Windows without time in them and time zones that are not known are problems, too.
UpgradeSchedule ReadUpgradeSchedule(const Block& block);

// What annotations of the object say instead, or beside. Their problems have paths that begin with
// "metadata.annotations".
void ReadUpgradeAnnotations(const codec::Json& object, UpgradePolicy& policy,
                            std::vector<FieldProblem>& problems);

}  // namespace pitcrew::api

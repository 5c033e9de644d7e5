// Which pods leave their nodes when drivers are exchanged, which are waited for, and which stand in
// the way: by the rules that the operator goes by when it does it (workload/gpu_use.h,
// workload/drain.h, driver_upgrade/step.h), and which a disruption budget would keep now
// (budgets.h).
#pragma once

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

// Leaves of a Pod what these rules look at.
void TrimPod(codec::Json& pod);

// Reads the pods of nodes whose drivers are exchanged, the claims of these, and disruption budgets.
// What may not be read is unknown in the snapshot.
base::Status ReadDepartingPods(kube::Client& client, const Plan& plan, snapshot::Snapshot& snapshot,
                               const io::StopToken& stop);

// Adds them to the plan's upgrades, and the notes of these to the plan.
void AddDepartingPods(const snapshot::Snapshot& snapshot, Plan& plan);

}  // namespace pitcrew::plan

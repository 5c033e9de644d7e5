// The fleet as the page shows it, cut into named parts, so that a change costs only what has
// changed. What is wrong is the report's to say (fleet/report.h); this adds the chain of each node
// and its GPUs, and decides nothing.
#pragma once

#include <map>
#include <string>

#include "codec/json.h"
#include "fleet/cluster.h"
#include "fleet/report.h"

namespace pitcrew::dashboard {

// Name to compact JSON: "totals", "policy", "upgrade", "operand/driver", "node/gpu-a",
// "pod/Pod team/train-0", "finding/no-policy", "unknown/Logs". docs/dashboard.md describes them.
using Picture = std::map<std::string, std::string>;

// `report` is of `cluster`, and asked for nothing in particular.
Picture PictureOf(const fleet::Cluster& cluster, const fleet::Report& report);

// What doctor says of a node, with its chain (`chain`), its GPUs (`gpus`), whether it is cordoned,
// and the state of its driver's upgrade where it is in one.
codec::Json NodeJson(const fleet::Cluster& cluster, const fleet::NodeReport& node,
                     codec::Json doctor_says);

// {"set": {name: part}, "gone": [name]} as JSON, both only where there is something; "" when the
// two are the same.
std::string ChangeBetween(const Picture& before, const Picture& now);
// {"set": {every part}}.
std::string WholeOf(const Picture& picture);

}  // namespace pitcrew::dashboard

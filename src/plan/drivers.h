// The NVIDIADrivers of a plan: those of the snapshot, with the ones that are given in their place.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/driver_objects/assignment.h"
#include "desired/driver_objects/driver_view.h"
#include "desired/driver_objects/pools.h"
#include "desired/facts.h"
#include "desired/image.h"
#include "desired/render.h"
#include "plan/cluster.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

struct WantedDrivers {
  std::vector<std::shared_ptr<const desired::DriverView>> views;  // by name
  // By name: the fields of those that are given in which they differ from what stands.
  std::map<std::string, std::string, std::less<>> changed_fields;
  // What is wrong with the drivers by themselves.
  std::vector<Problem> problems;
  // What could not be read; none otherwise.
  std::optional<base::Error> unread;
};
base::Result<WantedDrivers> ReadWantedDrivers(const snapshot::Snapshot& snapshot,
                                              const std::vector<codec::Json>& given);

// What they refer to.
desired::References ReferencesOf(const WantedDrivers& drivers);
// What of a live cluster is to be read in addition because of them.
std::vector<snapshot::Query> QueriesOfDrivers(const snapshot::Snapshot& snapshot,
                                              const std::vector<codec::Json>& given,
                                              const std::string& operator_namespace);

// What the operator would make of one of them.
struct PlannedDriver {
  std::shared_ptr<const desired::DriverView> view;  // never null
  desired::RenderedOperand rendered;
  // Nothing of it is removed: it is not known which of its DaemonSets are needed.
  bool keeps_all = false;
};
// Over the nodes as they will be labelled. What keeps a driver from being carried out is among
// `problems`.
std::vector<PlannedDriver> PlanDrivers(const WantedDrivers& drivers,
                                       const snapshot::Snapshot& snapshot,
                                       const api::ClusterPolicy& policy,
                                       const PlannedCluster& cluster, const Options& options,
                                       std::vector<Problem>& problems);

}  // namespace pitcrew::plan

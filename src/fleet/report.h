// What status and doctor say of a cluster: a pure function of what was read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/cluster.h"
#include "fleet/finding.h"
#include "fleet/rules.h"

namespace pitcrew::fleet {

struct PolicyReport {
  std::string name;
  std::string state;
  Time since;
  std::string message;  // what it waits for; "" when it is ready
};

struct OperandReport {
  std::string name;
  std::int64_t desired = 0;
  std::int64_t ready = 0;
  // The first node where it is not ready, and why; "" when it is everywhere.
  std::string behind;
  std::string reason;
};

struct NodeReport {
  std::string name;
  Workload workload = Workload::kContainer;
  std::vector<Stage> links;  // of its chain, in order
  // The first link that is broken; kReady when none is.
  Stage stage = Stage::kReady;
  std::optional<Finding> broken;
  std::string product;         // as feature discovery labels it; "" when it has not
  std::string driver_version;  // the same
  struct Offer {
    std::string resource;
    std::int64_t capacity = 0;
    std::int64_t allocatable = 0;
    bool former = false;  // of a device plugin that has ended; the kubelet forgets it by itself
  };
  std::vector<Offer> offers;
  Time since;  // of the state that it is in
  // State of its qualification (api/qualification.h); "" where the node tells of none.
  std::string qualification;
  // Why the upgrade of its driver does not begin; "" when it may, or has none before it. Of nodes
  // that were asked for.
  std::string upgrade_waits;

  [[nodiscard]] bool ready() const { return !broken.has_value(); }
};

// How far the driver's roll-out is: nodes by the state of their upgrade, those that are there.
struct UpgradeReport {
  std::vector<std::pair<std::string, int>> states;  // in the order of the states
  std::string held;  // why no node that waits begins; "" when one may, or none waits
  // Nodes that wait, by the reason.
  std::map<std::string, std::vector<std::string>> waiting;
};

// A NVIDIADriver.
struct DriverReport {
  std::string name;
  std::string state;
  std::string version;
  int nodes = 0;        // that have been given it
  std::string message;  // what is wrong, as the operator says it; "" when nothing is
  // Its nodes by the state of their upgrade; empty when all are done.
  std::vector<std::pair<std::string, int>> upgrade;
  std::string held;  // as in UpgradeReport
};

// What could not be read, and why.
struct Unread {
  std::string what;
  std::string reason;
};

// What to look at; everything when all are empty.
struct Question {
  std::vector<std::string> nodes;
  std::vector<Key> pods;

  [[nodiscard]] bool empty() const { return nodes.empty() && pods.empty(); }
};

struct Report {
  base::WallClock::time_point now;
  std::string name_space;
  std::optional<PolicyReport> policy;  // the active one
  std::vector<OperandReport> operands;
  std::vector<DriverReport> drivers;     // where drivers are those of NVIDIADrivers
  std::optional<UpgradeReport> upgrade;  // none where every driver is as it shall be
  // Nodes with GPUs, or those asked for: first those that are not ready, along the chain, then by
  // name.
  std::vector<NodeReport> nodes;
  std::size_t other_nodes = 0;  // without a GPU
  // Nodes that node feature discovery has never labelled: whether they have a GPU is not known.
  std::vector<std::string> undiscovered;
  std::vector<Finding> pods;
  std::vector<std::string> pods_without_findings;  // of those asked for
  std::vector<Finding> cluster;
  std::vector<Unread> unread;
  Wanted wanted;

  // Policies, nodes, and the operands' DaemonSets and pods were read: silence means health.
  bool judged = true;

  [[nodiscard]] std::size_t ready_nodes() const;
  // Something is known to be broken. Pods of users do not count: that they wait for GPUs is how a
  // busy cluster looks.
  [[nodiscard]] bool is_broken() const;
  // Nothing is broken, and that is known.
  [[nodiscard]] bool all_ready() const { return judged && !is_broken(); }
};

// `cluster` must have been indexed.
Report MakeReport(const Cluster& cluster, const Question& question = {});

}  // namespace pitcrew::fleet

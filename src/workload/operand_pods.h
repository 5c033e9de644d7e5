// Pods of operands on one node, until they are gone.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::workload {

// A pod of a node, as far as it tells which operand it is of.
struct OperandPod {
  // Its label "app", or "name" where it has no other (the managers of VFIO and of confidential
  // computing).
  std::string app;
  std::string daemonset;  // that it is of; "" for none
  bool operator==(const OperandPod&) const = default;
};

OperandPod OperandOf(const codec::Json& pod);

// Waits until no pod of the namespace on the node is meant. kTimeout "OperandsStillRunning" names
// those that are left.
base::Status AwaitPodsGone(const std::shared_ptr<kube::Client>& client, const std::string& node,
                           const std::string& namespace_name,
                           const std::function<bool(const OperandPod&)>& is_meant,
                           std::chrono::steady_clock::time_point deadline,
                           const io::StopToken& stop);

}  // namespace pitcrew::workload

// Telling the Node of its qualification: state label, annotation, Event (api/qualification.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/qualification.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/own_node/own_node.h"
#include "node/qualification/examine.h"

namespace pitcrew::node::qualification {

// Whether the Node has the taint that waits for a qualification of its GPUs.
bool IsHeld(const codec::Json& node);
// status.nodeInfo.bootID; "" where the kubelet has not told it.
std::string BootOf(const codec::Json& node);

// What the Node tells of these GPUs, all and no others, with this driver, where that still holds:
// that they passed, also from before a restart of the node; that they failed, since its last one.
// A restart mends some faults and makes none. None where it has to be tested.
std::optional<api::QualificationState> StandingResult(const codec::Json& node, const Found& found);

class Teller {
 public:
  // `boot`: BootOf the node, "" when it is not known.
  Teller(own_node::OwnNode& node, std::string boot) : node_(node), boot_(std::move(boot)) {}

  // Errors are those of the API server: the Node then still tells what it told before.
  base::Status TellRunning(const Found& found, const io::StopToken& stop);
  // Also an Event.
  base::Status TellResult(const Report& report, const io::StopToken& stop);
  // The qualification came to no result; told as failed, with no verdict on any GPU.
  base::Status TellNotDone(const base::Error& why, const io::StopToken& stop);
  // The state of a result that stands; the annotation has it already.
  base::Status TellStanding(api::QualificationState state, const io::StopToken& stop);
  // Nothing: a qualification was broken off, and begins again.
  base::Status Forget(const io::StopToken& stop);

 private:
  base::Status Write(const api::Qualification& qualification, const io::StopToken& stop);

  own_node::OwnNode& node_;
  std::string boot_;
};

}  // namespace pitcrew::node::qualification

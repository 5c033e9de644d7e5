// Telling the Node of its qualification: state label, annotation, Event (api/qualification.h).
#pragma once

#include <string>
#include <vector>

#include "api/qualification.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/own_node/own_node.h"
#include "node/qualification/examine.h"

namespace pitcrew::node::qualification {

// Whether the Node tells that these GPUs, all and no others, have passed with this driver.
bool Stands(const codec::Json& node, const Found& found);

class Teller {
 public:
  explicit Teller(own_node::OwnNode& node) : node_(node) {}

  // Errors are those of the API server: the Node then still tells what it told before.
  base::Status TellRunning(const Found& found, const io::StopToken& stop);
  // Also an Event.
  base::Status TellResult(const Report& report, const io::StopToken& stop);
  // The qualification came to no result; told as failed, with no verdict on any GPU.
  base::Status TellNotDone(const base::Error& why, const io::StopToken& stop);

 private:
  base::Status Write(const api::Qualification& qualification, const io::StopToken& stop);

  own_node::OwnNode& node_;
};

}  // namespace pitcrew::node::qualification

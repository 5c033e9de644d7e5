// `vfio-manage status` for people and for programs.
#pragma once

#include <string>

#include "codec/json.h"
#include "node/vfio/status.h"

namespace pitcrew::node::vfio_manager {

std::string ToTable(const vfio::NodeStatus& status);
// {"devices": [...], "failures": [...]}; docs/virtual-machines.md lists the members.
codec::Json ToJson(const vfio::NodeStatus& status);

}  // namespace pitcrew::node::vfio_manager

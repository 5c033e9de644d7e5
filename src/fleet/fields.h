// Which field of a ClusterPolicy has an effect on a container of an operand: several containers of
// one pod are set by different blocks (operand-manifests.md, sections of the operands).
#pragma once

#include <string>
#include <string_view>

#include "fleet/cluster.h"

namespace pitcrew::fleet {

// The block that sets image and pull secrets of the container, below spec: "validator",
// "driver.manager"; "" for an image that the policy does not choose.
std::string ImageFieldOf(const Operand& operand, std::string_view container);
// The block whose `resources` the container gets.
std::string ResourcesFieldOf(const Operand& operand, std::string_view container);

}  // namespace pitcrew::fleet

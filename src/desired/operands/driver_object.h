// Driver of a NVIDIADriver object, for one of its pools of nodes (reference operand-manifests.md
// section 23): the same manifests as the policy's driver, described by another kind.
#pragma once

#include <vector>

#include "desired/operand.h"

namespace pitcrew::desired {

// context.driver_spec is not null. Names and node selector are Place's.
base::Status CustomizeDriverObject(std::vector<Object>& objects, const Context& context);

}  // namespace pitcrew::desired

// Flags and variables of the subcommands (mig-manager.md sections 2.1 and 2.2).
#pragma once

#include "base/subcommands.h"

namespace pitcrew::node::mig_parted {

const base::Subcommands& CommandLines();

}  // namespace pitcrew::node::mig_parted

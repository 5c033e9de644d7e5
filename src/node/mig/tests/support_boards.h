// GPUs as values, with the profiles that mig-manager.md section 12.2 lists.
#pragma once

#include "node/mig/layout.h"

namespace pitcrew::node::mig {

// Idle, MIG on, without instances.
Gpu A100With40Gb(int position);
Gpu A30(int position);
// The same as far as these tests need it: MIG on or off, a board without MIG.
Gpu WithMigOff(Gpu gpu);
Gpu WithoutMig(int position);

}  // namespace pitcrew::node::mig

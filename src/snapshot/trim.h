// Leaves out of an object what no command looks at and what makes most of its size.
#pragma once

#include "codec/json.h"

namespace pitcrew::snapshot {

// Of Nodes: managed fields, images, volumes in use. Of Pods: managed fields. Others stay whole.
void Trim(codec::Json& object);

}  // namespace pitcrew::snapshot

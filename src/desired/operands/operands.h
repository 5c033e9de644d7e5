// Every operand's descriptor. Each stands in a file of its own, and in the list operands.def.
#pragma once

#include "desired/operand.h"

namespace pitcrew::desired {

#define OPERAND(name) Operand name();
#include "desired/operands/operands.def"
#undef OPERAND

}  // namespace pitcrew::desired

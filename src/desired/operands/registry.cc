#include "desired/operand_table.h"
#include "desired/operands/operands.h"

namespace pitcrew::desired {

const OperandTable& Operands() {
  static const OperandTable kOperands(
      {
#define OPERAND(name) name(),
#include "desired/operands/operands.def"
#undef OPERAND
      },
      EmbeddedManifests());
  return kOperands;
}

}  // namespace pitcrew::desired

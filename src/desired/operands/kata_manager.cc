// Kata manager: given up by upstream. Nothing of it is deployed, and what older releases left is
// removed (reference operand-manifests.md section 22).
#include "desired/operands/operands.h"

namespace pitcrew::desired {

Operand KataManager() {
  return {.state = "state-kata-manager",
          .condition = "KataManagerReady",
          .title = "Kata manager",
          .blocks = {},
          .mode = [](const Context&) { return Mode::kDisabled; },
          .customize = nullptr};
}

}  // namespace pitcrew::desired

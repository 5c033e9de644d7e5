// Kata manager: given up by upstream. Nothing of it is deployed, and what older releases left is
// removed (reference operand-manifests.md section 22).
#include "api/labels.h"
#include "desired/operands/operands.h"

namespace pitcrew::desired {

Operand KataManager() {
  return {.state = "state-kata-manager",
          .condition = "KataManagerReady",
          .title = "Kata manager",
          .name = "Kata manager",
          .daemonsets = {"nvidia-kata-manager"},
          .deploy = {.key = api::kDeployKataManager, .workloads = {.passthrough = true}},
          .blocks = {},
          .mode = [](const api::ClusterPolicy&) { return Mode::kDisabled; },
          .customize = nullptr};
}

}  // namespace pitcrew::desired

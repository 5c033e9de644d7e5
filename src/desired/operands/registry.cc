#include "desired/operand_table.h"
#include "desired/operands/operands.h"

namespace pitcrew::desired {

// In upstream's order, which is the order of roll-out (reference operator-behaviour.md section 5).
const OperandTable& Operands() {
  static const OperandTable kOperands(
      {
          PreRequisites(),       OperatorMetrics(),     DriverOperand(),     ContainerToolkit(),
          OperatorValidation(),  DevicePlugin(),        MpsControlDaemon(),  Dcgm(),
          DcgmExporter(),        GpuFeatureDiscovery(), MigManager(),        NodeStatusExporter(),
          VgpuManager(),         VgpuDeviceManager(),   SandboxValidation(), VfioManager(),
          SandboxDevicePlugin(), KataDevicePlugin(),    KataManager(),       CcManager(),
      },
      EmbeddedManifests());
  return kOperands;
}

}  // namespace pitcrew::desired

#include "desired/operands/operands.h"

namespace pitcrew::desired {

std::span<const Operand> Operands() {
  static const Operand kOperands[] = {
      PreRequisites(),       OperatorMetrics(),     DriverOperand(),     ContainerToolkit(),
      OperatorValidation(),  DevicePlugin(),        MpsControlDaemon(),  Dcgm(),
      DcgmExporter(),        GpuFeatureDiscovery(), MigManager(),        NodeStatusExporter(),
      VgpuManager(),         VgpuDeviceManager(),   SandboxValidation(), VfioManager(),
      SandboxDevicePlugin(), KataDevicePlugin(),    KataManager(),       CcManager(),
  };
  return kOperands;
}

}  // namespace pitcrew::desired

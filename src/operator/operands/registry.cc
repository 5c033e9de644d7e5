#include "operator/operands/operands.h"

namespace pitcrew::gpu_operator {

std::span<const Operand> Operands() {
  static const Operand kOperands[] = {
      PreRequisites(),
      DriverOperand(),
      ContainerToolkit(),
      OperatorValidation(),
      DevicePlugin(),
      GpuFeatureDiscovery(),
  };
  return kOperands;
}

}  // namespace pitcrew::gpu_operator

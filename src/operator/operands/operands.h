// Every operand's descriptor; registry.cc puts them in order.
#pragma once

#include "operator/operand.h"

namespace pitcrew::gpu_operator {

Operand PreRequisites();
Operand DriverOperand();
Operand ContainerToolkit();
Operand OperatorValidation();
Operand DevicePlugin();
Operand GpuFeatureDiscovery();

}  // namespace pitcrew::gpu_operator

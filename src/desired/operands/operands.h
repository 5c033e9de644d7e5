// Every operand's descriptor; registry.cc puts them in order.
#pragma once

#include "desired/operand.h"

namespace pitcrew::desired {

Operand PreRequisites();
Operand OperatorMetrics();
Operand DriverOperand();
Operand ContainerToolkit();
Operand OperatorValidation();
Operand DevicePlugin();
Operand MpsControlDaemon();
Operand Dcgm();
Operand DcgmExporter();
Operand GpuFeatureDiscovery();
Operand MigManager();
Operand NodeStatusExporter();
Operand VgpuManager();
Operand VgpuDeviceManager();
Operand SandboxValidation();
Operand VfioManager();
Operand SandboxDevicePlugin();
Operand KataDevicePlugin();
Operand KataManager();
Operand CcManager();

}  // namespace pitcrew::desired

// Looks of the table of operand_rules.cc. Each sees one thing about an operand that is not ready on
// a node, and nothing else.
#pragma once

#include "fleet/rules.h"

namespace pitcrew::fleet::look {

// There is no pod, or the node cannot start it.
Look NoDaemonSet(const OperandContext& context);
Look NotSelected(const OperandContext& context);
Look Untolerated(const OperandContext& context);
Look RuntimeClassMissing(const OperandContext& context);
Look RefusedByQuota(const OperandContext& context);
Look RefusedBySecurity(const OperandContext& context);
Look RefusedByServer(const OperandContext& context);
Look NotCreated(const OperandContext& context);
Look BeingDeleted(const OperandContext& context);
Look Unschedulable(const OperandContext& context);
Look HandlerMissing(const OperandContext& context);
Look SandboxFailed(const OperandContext& context);
Look MountFailed(const OperandContext& context);

// What the kubelet and the container say.
Look DriverImageNotFound(const OperandContext& context);
Look ImageNotFound(const OperandContext& context);
Look PullDenied(const OperandContext& context);
Look PullFailed(const OperandContext& context);
Look PluginConfigMissing(const OperandContext& context);
Look ConfigMissing(const OperandContext& context);
Look CdiUnresolvable(const OperandContext& context);
Look OutOfMemory(const OperandContext& context);
Look ToolkitValidationFails(const OperandContext& context);
Look CudaValidationFails(const OperandContext& context);
Look CrashLoop(const OperandContext& context);
Look DriverInstalling(const OperandContext& context);
Look InitWaits(const OperandContext& context);
Look NotReady(const OperandContext& context);
Look Starting(const OperandContext& context);

// The node tells that its GPUs were tested and have failed, whoever asked for it.
Look NotQualified(const NodeContext& context);
// The node takes no pods before its GPUs have passed, and they have not yet.
Look AwaitsQualification(const NodeContext& context);
inline constexpr std::string_view kAwaitsQualificationFix =
    "The validator on {node} tests the GPUs when it comes there, and the operator takes the taint "
    "away when they pass (docs/qualification.md). If nothing tests them:\n"
    "$ kubectl pitcrew qualify {node} --wait";
inline constexpr std::string_view kNotQualifiedFix =
    "Drain {node}. Rows that wait to be remapped and counted errors need a reset of the GPU or a "
    "restart of the node; a link or clocks that are too slow somebody who looks at slot, cooling "
    "and power; wrong memory and failed remapping another GPU. Then test again "
    "(docs/qualification.md):\n"
    "$ kubectl pitcrew qualify {node} --wait";

}  // namespace pitcrew::fleet::look

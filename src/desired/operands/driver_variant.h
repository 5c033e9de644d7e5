// One driver DaemonSet becomes several: one per kernel with precompiled drivers, one per RHCOS
// version with OpenShift's driver toolkit (reference operand-manifests.md sections 6.3 and 6.4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "desired/operand.h"

namespace pitcrew::desired {

// "5.14.0-427.37.1.el9_4.aarch64_64k" becomes "5.14.0-427.37.1.el9.4".
std::string SanitizeKernelVersion(std::string_view kernel);

// Name, labels and node selector of the DaemonSet for one kernel.
void MakePrecompiledVariant(Object& daemonset, const std::string& kernel, const OsRelease& os);

// The driver toolkit is wanted and possible.
bool UsesDriverToolkit(const Context& context);

// Name, labels, node selector and toolkit container of the DaemonSet for one RHCOS version; operand
// containers run under the toolkit's entry point.
// `resources` are the toolkit container's.
base::Status MakeDriverToolkitVariant(Object& daemonset, const std::string& rhcos_version,
                                      const std::optional<codec::Json>& resources,
                                      const Context& context);

}  // namespace pitcrew::desired

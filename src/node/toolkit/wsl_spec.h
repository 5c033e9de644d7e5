// The CDI specification of the Windows subsystem for Linux (container-toolkit.md 6.9): what
// nvidia-ctk writes on request, and the installer for the runtime.
#pragma once

#include "base/result.h"
#include "cdi/generate/generate.h"
#include "cdi/spec.h"
#include "host/root.h"

namespace pitcrew::node::toolkit {

// One device, "all". What is missing of the driver's files is in the log.
base::Result<cdi::Spec> GenerateWslSpec(const host::Root& driver_root, const host::Root& dev_root,
                                        const cdi_generate::Options& options);

}  // namespace pitcrew::node::toolkit

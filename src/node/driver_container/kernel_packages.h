// What a kernel's modules are compiled with, had from the distribution's repositories by the
// package tool of the image.
#pragma once

#include <string>

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/facts.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// The kernel's headers, and its own modules where the image has none (without them the driver's may
// still load). kUnavailable "KernelHeadersMissing" tells what the tool said of which repositories,
// and what to do.
base::Status InstallKernelPackages(const Options& options, const Facts& facts,
                                   const io::StopToken& stop);

// Whether they could be installed, asked of the package tool without changing the image, for a
// minute and a half at most. kUnavailable "KernelHeadersMissing" names the package that the
// repositories do not have; "KernelHeadersUnknown" says why nobody can tell: a repository that
// cannot be reached now may have it.
base::Status LookForKernelHeaders(const Options& options, const Facts& facts,
                                  const io::StopToken& stop);

// A compiler by the name of its program; the log has what went wrong.
void InstallCompiler(const Options& options, const Facts& facts, const std::string& name,
                     const io::StopToken& stop);

}  // namespace pitcrew::node::driver_container

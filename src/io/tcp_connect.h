// Connecting to a host and port; the first step of connection.h.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::io {

// A connected socket that does not block. The host's addresses are tried in the resolver's order,
// each a little after the one before it, and the first that answers is taken (RFC 8305's idea).
// Errors: kUnavailable "NameNotResolved", "ConnectionRefused" (also at the deadline); kCancelled.
base::Result<base::FileDescriptor> ConnectTcp(const std::string& host, const std::string& port,
                                              base::Deadline deadline, const StopToken& stop);

}  // namespace pitcrew::io

// A tunnel through an HTTP proxy (RFC 9110 section 9.3.6, CONNECT). Of connection.cc.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "io/url.h"

namespace pitcrew::io {

class Connection;

struct TunnelEnd {
  std::string host{};  // without brackets
  std::string port{};
};

// Asks the proxy at the other end of `connection`; afterwards its bytes are those of `end`. Blocks.
// Errors: kDenied "ProxyRefused" when the proxy does not let us (403, 407), kUnavailable
// "ProxyRefused" for any other answer than 2xx, "ConnectionRefused" at the deadline,
// "ConnectionLost"; the stop's.
base::Status OpenTunnel(Connection& connection, const Url& proxy, const TunnelEnd& end,
                        base::Deadline deadline, const StopToken& stop);

}  // namespace pitcrew::io

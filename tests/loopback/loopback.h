// Sockets on the loopback interface, for servers of tests.
#pragma once

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::testing {

struct LoopbackSocket {
  base::FileDescriptor socket;
  int port = 0;
};

// Listens on a free port of 127.0.0.1.
base::Result<LoopbackSocket> ListenOnLoopback();
// A free port of 127.0.0.1 that the kernel gives to nobody else while the socket is open. It does
// not listen; a server that sets SO_REUSEPORT may.
base::Result<LoopbackSocket> ReserveOnLoopback();

}  // namespace pitcrew::testing

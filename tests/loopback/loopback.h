// Sockets on the loopback interface, for servers of tests.
#pragma once

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::testing {

struct LoopbackListener {
  base::FileDescriptor socket;
  int port = 0;
};

// Listens on a free port of 127.0.0.1.
base::Result<LoopbackListener> ListenOnLoopback();

}  // namespace pitcrew::testing

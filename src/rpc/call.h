// One gRPC call with one answer, that a stop can end.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::rpc {

// Starts a call of a stub's callback interface, for example
//   [&](auto* context, auto done) { stub->async()->Status(context, &request, &answer, done); }
using StartCall =
    std::function<void(grpc::ClientContext* context, std::function<void(grpc::Status)> done)>;

// Waits for the server to listen and for its answer: the call's own status, DEADLINE_EXCEEDED and,
// on stop, CANCELLED among them. What `start` refers to is no longer used when this returns. An
// error only where waiting is impossible; nothing was sent then.
base::Result<grpc::Status> CallUnary(const StartCall& start, base::Deadline deadline,
                                     const io::StopToken& stop);

}  // namespace pitcrew::rpc

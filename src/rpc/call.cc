#include "rpc/call.h"

#include <grpc/support/time.h>

#include <utility>

#include "base/bell.h"

namespace pitcrew::rpc {

base::Result<grpc::Status> CallUnary(const StartCall& start, base::Deadline deadline,
                                     const io::StopToken& stop) {
  TRY_ASSIGN(const auto ended, base::Bell::Create());
  if (stop.stopped()) return base::Fail(stop.error());
  grpc::Status status;
  grpc::ClientContext context;
  if (!deadline.never()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                      gpr_time_from_millis(left.count(), GPR_TIMESPAN)));
  }
  context.set_wait_for_ready(true);
  start(&context, [&](grpc::Status result) {
    status = std::move(result);
    ended.Ring();
  });
  // The call's own deadline ends the wait; a stop cancels it, which ends it too. Whatever else goes
  // wrong, gRPC holds our references until it has called back.
  if (!io::WaitReadable({ended.fd()}, stop)) {
    context.TryCancel();
    while (!io::WaitReadable({ended.fd()}, {})) {
    }
  }
  return status;
}

}  // namespace pitcrew::rpc

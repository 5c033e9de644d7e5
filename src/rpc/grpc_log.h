// gRPC's own messages go through the house's log.
#pragma once

namespace pitcrew::rpc {

// Idempotent and thread-safe; every entry of this room calls it first.
void RouteGrpcLog();

}  // namespace pitcrew::rpc

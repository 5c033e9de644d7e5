#include "rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <mutex>

#include "base/log.h"

namespace pitcrew::rpc {
namespace {

void Forward(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? base::LogLevel::kWarning
                     : args->severity == GPR_LOG_SEVERITY_INFO ? base::LogLevel::kInfo
                                                               : base::LogLevel::kDebug;
  base::Log(level, "grpc", {{"text", args->message}});
}

}  // namespace

void RouteGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] { gpr_set_log_function(Forward); });
}

}  // namespace pitcrew::rpc

#include "rpc/container_runtime.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "cri_v1.grpc.pb.h"
#include "rpc/call.h"
#include "rpc/channel.h"
#include "rpc/grpc_log.h"

namespace pitcrew::rpc {
namespace {

namespace cri = ::runtime::v1;

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{500};

base::Result<RuntimeStatus> ToResult(const grpc::Status& status, const cri::StatusResponse& answer,
                                     const std::filesystem::path& socket) {
  if (status.ok()) {
    RuntimeStatus found;
    for (const auto& handler : answer.runtime_handlers()) found.handlers.push_back(handler.name());
    return found;
  }
  const auto text = fmt::format("the container runtime at {} does not take pods: {}",
                                socket.string(), status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
      return base::Fail(base::Error{base::Code::kUnsupported, "NoContainerRuntimeInterface", text});
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return base::Fail(base::Error{base::Code::kTimeout, "ContainerRuntimeNotReady", text});
    case grpc::StatusCode::CANCELLED:
      return base::Fail(base::Error{base::Code::kCancelled, "Stopped", text});
    case grpc::StatusCode::UNAVAILABLE:
      return base::Fail(base::Unavailable("ContainerRuntimeNotReady", text));
    default:
      return base::Fail(base::Unavailable("ContainerRuntimeRefused", text));
  }
}

base::Result<RuntimeStatus> CallStatus(cri::RuntimeService::Stub& stub,
                                       const std::filesystem::path& socket,
                                       const io::StopToken& stop, base::Deadline deadline) {
  cri::StatusRequest request;
  cri::StatusResponse answer;
  TRY_ASSIGN(const auto status, CallUnary(
                                    [&](auto* context, auto done) {
                                      stub.async()->Status(context, &request, &answer,
                                                           std::move(done));
                                    },
                                    deadline, stop));
  return ToResult(status, answer, socket);
}

}  // namespace

base::Result<RuntimeStatus> WaitForContainerRuntime(const std::filesystem::path& socket,
                                                    const io::StopToken& stop,
                                                    base::Deadline deadline) {
  RouteGrpcLog();
  const auto stub = cri::RuntimeService::NewStub(Dial(socket));
  auto pause = kFirstPause;
  while (true) {
    auto status = CallStatus(*stub, socket, stop, deadline);
    if (status || status.error().reason != "ContainerRuntimeNotReady") return status;
    if (status.error().code == base::Code::kTimeout || deadline.passed()) {
      status.error().code = base::Code::kTimeout;
      return status;
    }
    if (stop.WaitFor(std::min<std::chrono::nanoseconds>(pause, deadline.left()))) {
      return base::Fail(stop.error());
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace pitcrew::rpc

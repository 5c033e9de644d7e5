#include "rpc/container_runtime.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/file_descriptor.h"
#include "cri_v1.grpc.pb.h"
#include "rpc/channel.h"
#include "rpc/grpc_log.h"

namespace pitcrew::rpc {
namespace {

namespace cri = ::runtime::v1;
using Clock = std::chrono::steady_clock;

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

base::Result<RuntimeStatus> Ask(cri::RuntimeService::Stub& stub,
                                const std::filesystem::path& socket, const io::StopToken& stop,
                                Clock::time_point deadline) {
  const base::FileDescriptor done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done.valid()) return base::Fail(base::FromErrno(errno, "make an eventfd"));
  cri::StatusRequest request;
  cri::StatusResponse answer;
  grpc::Status status;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()));
  context.set_wait_for_ready(true);
  stub.async()->Status(&context, &request, &answer, [&status, &done](grpc::Status result) {
    status = std::move(result);
    ::eventfd_write(done.get(), 1);
  });
  // The call's own deadline ends the wait; a stop cancels it, which ends it too.
  if (!io::WaitReadable({done.get()}, stop)) {
    context.TryCancel();
    if (const auto ended = io::WaitReadable({done.get()}, io::StopToken()); !ended) {
      return base::Fail(ended.error());
    }
  }
  return ToResult(status, answer, socket);
}

}  // namespace

base::Result<RuntimeStatus> WaitForContainerRuntime(const std::filesystem::path& socket,
                                                    const io::StopToken& stop,
                                                    Clock::time_point deadline) {
  RouteGrpcLog();
  const auto stub = cri::RuntimeService::NewStub(Dial(socket));
  auto pause = kFirstPause;
  while (true) {
    auto status = Ask(*stub, socket, stop, deadline);
    if (status || status.error().reason != "ContainerRuntimeNotReady") return status;
    if (status.error().code == base::Code::kTimeout || Clock::now() >= deadline) {
      status.error().code = base::Code::kTimeout;
      return status;
    }
    const auto left = deadline - Clock::now();
    if (stop.WaitFor(std::min<std::chrono::nanoseconds>(pause, left))) {
      return base::Fail(base::Error{base::Code::kCancelled, "Stopped", "told to stop meanwhile"});
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace pitcrew::rpc

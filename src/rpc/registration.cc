#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "device_plugin_v1beta1.grpc.pb.h"
#include "rpc/channel.h"
#include "rpc/device_plugin.h"
#include "rpc/grpc_log.h"

namespace pitcrew::rpc {
namespace {

base::Status ToResult(const grpc::Status& status, const std::filesystem::path& socket) {
  if (status.ok()) return {};
  const auto text = fmt::format("the kubelet at {} did not take the registration: {}",
                                socket.string(), status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return base::Fail(base::Unavailable("KubeletNotAnswering", text));
    case grpc::StatusCode::CANCELLED:
      return base::Fail({.code = base::Code::kCancelled, .reason = "Stopped", .message = text});
    default:
      return base::Fail(base::Invalid("RegistrationRefused", text));
  }
}

}  // namespace

base::Status RegisterWithKubelet(const std::filesystem::path& kubelet_socket,
                                 const Registration& registration,
                                 std::chrono::milliseconds timeout, const io::StopToken& stop) {
  RouteGrpcLog();
  const base::FileDescriptor done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done.valid()) return base::Fail(base::FromErrno(errno, "make an eventfd"));

  v1beta1::RegisterRequest request;
  request.set_version(std::string(kDevicePluginVersion));
  request.set_endpoint(registration.endpoint);
  request.set_resource_name(registration.resource_name);
  request.mutable_options()->set_get_preferred_allocation_available(true);

  v1beta1::Empty answer;
  grpc::Status status;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  context.set_wait_for_ready(true);
  const auto stub = v1beta1::Registration::NewStub(Dial(kubelet_socket));
  stub->async()->Register(&context, &request, &answer, [&status, &done](grpc::Status result) {
    status = std::move(result);
    eventfd_write(done.get(), 1);
  });
  // The call's own deadline ends the wait; a stop cancels it, which ends it too.
  if (!io::WaitReadable({done.get()}, stop)) {
    context.TryCancel();
    if (const auto ended = io::WaitReadable({done.get()}, io::StopToken()); !ended) {
      return base::Fail(ended.error());
    }
  }
  return ToResult(status, kubelet_socket);
}

}  // namespace pitcrew::rpc

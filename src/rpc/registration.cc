#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "device_plugin_v1beta1.grpc.pb.h"
#include "rpc/call.h"
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
  v1beta1::RegisterRequest request;
  request.set_version(std::string(kDevicePluginVersion));
  request.set_endpoint(registration.endpoint);
  request.set_resource_name(registration.resource_name);
  request.mutable_options()->set_get_preferred_allocation_available(true);

  v1beta1::Empty answer;
  const auto stub = v1beta1::Registration::NewStub(Dial(kubelet_socket));
  TRY_ASSIGN(const auto status, CallUnary(
                                    [&](auto* context, auto done) {
                                      stub->async()->Register(context, &request, &answer,
                                                              std::move(done));
                                    },
                                    base::Deadline::After(timeout), stop));
  return ToResult(status, kubelet_socket);
}

}  // namespace pitcrew::rpc

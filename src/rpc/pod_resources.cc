#include "rpc/pod_resources.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "pod_resources_v1.grpc.pb.h"
#include "rpc/call.h"
#include "rpc/channel.h"
#include "rpc/grpc_log.h"

namespace pitcrew::rpc {
namespace {

base::Error ToError(const grpc::Status& status, const std::filesystem::path& socket) {
  const auto text = fmt::format("the kubelet at {} does not tell which pod holds which devices: {}",
                                socket.string(), status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
      return {base::Code::kUnsupported, "NoPodResources", text};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {base::Code::kTimeout, "PodResourcesTimeout", text};
    case grpc::StatusCode::CANCELLED:
      return {base::Code::kCancelled, "Stopped", text};
    default:
      return base::Unavailable("PodResourcesRefused", text);
  }
}

PodDevices From(const ::v1::PodResources& pod) {
  PodDevices found{pod.namespace_(), pod.name(), {}};
  for (const auto& container : pod.containers()) {
    for (const auto& held : container.devices()) {
      found.devices.push_back({held.resource_name(),
                               {held.device_ids().begin(), held.device_ids().end()},
                               container.name()});
    }
    for (const auto& claim : container.dynamic_resources()) {
      for (const auto& device : claim.claim_resources()) {
        found.claims.push_back({container.name(), claim.claim_namespace(), claim.claim_name(),
                                device.driver_name(), device.pool_name(), device.device_name()});
      }
    }
  }
  return found;
}

}  // namespace

struct PodResources::Connection {
  std::unique_ptr<::v1::PodResourcesLister::Stub> stub;
};

PodResources::PodResources(std::filesystem::path socket)
    : socket_(std::move(socket)), connection_(std::make_unique<Connection>()) {
  RouteGrpcLog();
  connection_->stub = ::v1::PodResourcesLister::NewStub(Dial(socket_));
}
PodResources::~PodResources() = default;

base::Result<std::vector<PodDevices>> PodResources::List(const io::StopToken& stop,
                                                         base::Deadline deadline) const {
  std::error_code error;
  if (!std::filesystem::exists(socket_, error) && !error) {
    return base::Fail(base::NotFound(
        "PodResourcesMissing", fmt::format("the kubelet has no socket {}", socket_.string())));
  }
  ::v1::ListPodResourcesRequest request;
  ::v1::ListPodResourcesResponse answer;
  TRY_ASSIGN(const auto status, CallUnary(
                                    [&](auto* context, auto done) {
                                      connection_->stub->async()->List(context, &request, &answer,
                                                                       std::move(done));
                                    },
                                    deadline, stop));
  if (!status.ok()) return base::Fail(ToError(status, socket_));
  std::vector<PodDevices> pods;
  for (const auto& pod : answer.pod_resources()) pods.push_back(From(pod));
  return pods;
}

base::Result<std::vector<PodDevices>> ListPodDevices(const std::filesystem::path& socket,
                                                     const io::StopToken& stop,
                                                     base::Deadline deadline) {
  return PodResources(socket).List(stop, deadline);
}

}  // namespace pitcrew::rpc

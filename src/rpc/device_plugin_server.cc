#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <mutex>
#include <utility>

#include "base/log.h"
#include "device_plugin_v1beta1.grpc.pb.h"
#include "rpc/device_plugin.h"
#include "rpc/device_publication.h"
#include "rpc/grpc_log.h"

namespace pitcrew::rpc {
namespace {

DevicePublication::List ToMessage(const std::vector<PluginDevice>& devices) {
  auto message = std::make_shared<v1beta1::ListAndWatchResponse>();
  for (const auto& device : devices) {
    auto* entry = message->add_devices();
    entry->set_id(device.id);
    entry->set_health(device.healthy ? "Healthy" : "Unhealthy");
    if (device.numa_node) entry->mutable_topology()->add_nodes()->set_id(*device.numa_node);
  }
  return message;
}

void ToMessage(const ContainerAllocation& allocation, v1beta1::ContainerAllocateResponse* message) {
  for (const auto& [name, value] : allocation.envs) (*message->mutable_envs())[name] = value;
  for (const auto& mount : allocation.mounts) {
    auto* entry = message->add_mounts();
    entry->set_container_path(mount.container_path);
    entry->set_host_path(mount.host_path);
    entry->set_read_only(mount.read_only);
  }
  for (const auto& device : allocation.devices) {
    auto* entry = message->add_devices();
    entry->set_container_path(device.container_path);
    entry->set_host_path(device.host_path);
    entry->set_permissions(device.permissions);
  }
  for (const auto& [name, value] : allocation.annotations) {
    (*message->mutable_annotations())[name] = value;
  }
  for (const auto& name : allocation.cdi_devices) message->add_cdi_devices()->set_name(name);
}

grpc::Status ToStatus(const base::Error& error) {
  return {grpc::StatusCode::UNKNOWN, error.message};
}

class Service final : public v1beta1::DevicePlugin::CallbackService {
 public:
  Service(DevicePluginHandler& handler, std::shared_ptr<DevicePublication> publication)
      : handler_(handler), publication_(std::move(publication)) {}

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context,
                                                   const v1beta1::Empty* /*request*/,
                                                   v1beta1::DevicePluginOptions* answer) override {
    answer->set_get_preferred_allocation_available(true);
    return Done(context, grpc::Status::OK);
  }

  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(
      grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) override {
    return publication_->Open();
  }

  grpc::ServerUnaryReactor* GetPreferredAllocation(
      grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
      v1beta1::PreferredAllocationResponse* answer) override {
    for (const auto& container : request->container_requests()) {
      auto chosen =
          handler_.PreferredAllocation({.available = {container.available_deviceids().begin(),
                                                      container.available_deviceids().end()},
                                        .must_include = {container.must_include_deviceids().begin(),
                                                         container.must_include_deviceids().end()},
                                        .size = container.allocation_size()});
      if (!chosen) return Done(context, ToStatus(chosen.error()));
      auto* entry = answer->add_container_responses();
      for (auto& id : *chosen) entry->add_deviceids(std::move(id));
    }
    return Done(context, grpc::Status::OK);
  }

  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* answer) override {
    for (const auto& container : request->container_requests()) {
      const auto allocation =
          handler_.Allocate({container.devices_ids().begin(), container.devices_ids().end()});
      if (!allocation) return Done(context, ToStatus(allocation.error()));
      ToMessage(*allocation, answer->add_container_responses());
    }
    return Done(context, grpc::Status::OK);
  }

  grpc::ServerUnaryReactor* PreStartContainer(
      grpc::CallbackServerContext* context, const v1beta1::PreStartContainerRequest* /*request*/,
      v1beta1::PreStartContainerResponse* /*answer*/) override {
    return Done(context, grpc::Status::OK);
  }

 private:
  static grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext* context,
                                        const grpc::Status& status) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  DevicePluginHandler& handler_;
  const std::shared_ptr<DevicePublication> publication_;
};

class GrpcDevicePluginServer final : public DevicePluginServer {
 public:
  GrpcDevicePluginServer(DevicePluginHandler& handler, std::vector<PluginDevice> devices)
      : publication_(std::make_shared<DevicePublication>()), service_(handler, publication_) {
    Publish(std::move(devices));
  }

  ~GrpcDevicePluginServer() override {
    publication_->Close();
    // Calls under way are cancelled: the kubelet asks again after the next registration.
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }

  base::Status Listen(const std::filesystem::path& socket) {
    grpc::ServerBuilder builder;
    // Without this a second server could share the socket of a first one and get half its calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(fmt::format("unix:{}", socket.string()),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_) return {};
    return base::Fail(base::Unavailable(
        "PluginSocketFailed", fmt::format("cannot serve on {}: is the folder there, and may this "
                                          "process write to it?",
                                          socket.string())));
  }

  void Publish(std::vector<PluginDevice> devices) override {
    const std::lock_guard lock(mutex_);
    if (published_ && *published_ == devices) return;
    publication_->Publish(ToMessage(devices));
    published_ = std::move(devices);
  }

 private:
  std::mutex mutex_;
  std::optional<std::vector<PluginDevice>> published_;
  const std::shared_ptr<DevicePublication> publication_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

base::Result<std::unique_ptr<DevicePluginServer>> DevicePluginServer::Start(
    const std::filesystem::path& socket, DevicePluginHandler& handler,
    std::vector<PluginDevice> devices) {
  RouteGrpcLog();
  std::error_code ignored;
  std::filesystem::remove(socket, ignored);
  auto server = std::make_unique<GrpcDevicePluginServer>(handler, std::move(devices));
  TRY(server->Listen(socket));
  return server;
}

std::size_t ListSize(const std::vector<PluginDevice>& devices) {
  // The longer of the two words, so that a list which fits once fits always.
  auto unhealthy = devices;
  for (auto& device : unhealthy) device.healthy = false;
  return ToMessage(unhealthy)->ByteSizeLong();
}

}  // namespace pitcrew::rpc

#include "rpc/testing/fake_kubelet.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "device_plugin_v1beta1.grpc.pb.h"

namespace pitcrew::rpc::testing {
namespace {

class GrpcFakeKubelet final : public FakeKubelet, private v1beta1::Registration::Service {
 public:
  explicit GrpcFakeKubelet(const std::filesystem::path& folder) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fmt::format("unix:{}", (folder / kKubeletSocketName).string()),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~GrpcFakeKubelet() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  [[nodiscard]] bool serving() const { return server_ != nullptr; }

  std::vector<TakenRegistration> WaitForRegistrations(std::size_t count) override {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return taken_.size() >= count; });
    return taken_;
  }
  std::vector<TakenRegistration> registrations() override {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  void Refuse(const std::string& resource, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    refusals_[resource] = text;
  }
  void WaitForRefusals(std::size_t count) override {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return refused_ >= count; });
  }

 private:
  grpc::Status Register(grpc::ServerContext* /*context*/, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* /*answer*/) override {
    const std::lock_guard lock(mutex_);
    const auto& refusal = refusals_[request->resource_name()];
    if (!refusal.empty()) {
      ++refused_;
      arrived_.notify_all();
      return {grpc::StatusCode::UNKNOWN, refusal};
    }
    taken_.push_back(
        {.version = request->version(),
         .endpoint = request->endpoint(),
         .resource_name = request->resource_name(),
         .preferred_allocation_available = request->options().get_preferred_allocation_available(),
         .pre_start_required = request->options().pre_start_required()});
    arrived_.notify_all();
    return grpc::Status::OK;
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<TakenRegistration> taken_;
  std::map<std::string, std::string> refusals_;
  std::size_t refused_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

base::Error ToError(const grpc::Status& status) {
  return base::Unavailable(fmt::format("GrpcStatus{}", static_cast<int>(status.error_code())),
                           status.error_message());
}

ContainerAllocation FromMessage(const v1beta1::ContainerAllocateResponse& message) {
  ContainerAllocation allocation;
  allocation.envs = {message.envs().begin(), message.envs().end()};
  allocation.annotations = {message.annotations().begin(), message.annotations().end()};
  for (const auto& mount : message.mounts()) {
    allocation.mounts.push_back({.container_path = mount.container_path(),
                                 .host_path = mount.host_path(),
                                 .read_only = mount.read_only()});
  }
  for (const auto& device : message.devices()) {
    allocation.devices.push_back({.container_path = device.container_path(),
                                  .host_path = device.host_path(),
                                  .permissions = device.permissions()});
  }
  for (const auto& device : message.cdi_devices()) allocation.cdi_devices.push_back(device.name());
  return allocation;
}

class GrpcPluginClient final : public PluginClient {
 public:
  explicit GrpcPluginClient(const std::filesystem::path& socket) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(fmt::format("unix:{}", socket.string()),
                                                   grpc::InsecureChannelCredentials(), arguments);
    // A socket's file is there a moment before somebody listens on it. Nobody at all is an answer
    // too, of the first call.
    channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5));
    stub_ = v1beta1::DevicePlugin::NewStub(channel);
  }
  ~GrpcPluginClient() override { CancelList(); }

  base::Result<bool> PreferredAllocationAvailable() override {
    grpc::ClientContext context;
    v1beta1::DevicePluginOptions answer;
    const auto status = stub_->GetDevicePluginOptions(&context, {}, &answer);
    if (!status.ok()) return base::Fail(ToError(status));
    return answer.get_preferred_allocation_available();
  }

  base::Result<std::vector<std::string>> PreferredAllocation(
      const PreferredRequest& request) override {
    v1beta1::PreferredAllocationRequest message;
    auto* container = message.add_container_requests();
    for (const auto& id : request.available) container->add_available_deviceids(id);
    for (const auto& id : request.must_include) container->add_must_include_deviceids(id);
    container->set_allocation_size(request.size);
    grpc::ClientContext context;
    v1beta1::PreferredAllocationResponse answer;
    const auto status = stub_->GetPreferredAllocation(&context, message, &answer);
    if (!status.ok()) return base::Fail(ToError(status));
    const auto& ids = answer.container_responses(0).deviceids();
    return std::vector<std::string>(ids.begin(), ids.end());
  }

  base::Result<std::vector<ContainerAllocation>> Allocate(
      const std::vector<std::vector<std::string>>& containers) override {
    v1beta1::AllocateRequest message;
    for (const auto& ids : containers) {
      auto* container = message.add_container_requests();
      for (const auto& id : ids) container->add_devices_ids(id);
    }
    grpc::ClientContext context;
    v1beta1::AllocateResponse answer;
    const auto status = stub_->Allocate(&context, message, &answer);
    if (!status.ok()) return base::Fail(ToError(status));
    std::vector<ContainerAllocation> allocations;
    for (const auto& container : answer.container_responses()) {
      allocations.push_back(FromMessage(container));
    }
    return allocations;
  }

  base::Result<std::vector<PluginDevice>> NextList() override {
    if (!stream_) stream_ = stub_->ListAndWatch(&list_context_, {});
    v1beta1::ListAndWatchResponse message;
    if (!stream_->Read(&message)) {
      const auto status = stream_->Finish();
      stream_.reset();
      return base::Fail(status.ok() ? base::Unavailable("StreamEnded", "the plugin ended the list")
                                    : ToError(status));
    }
    std::vector<PluginDevice> devices;
    for (const auto& entry : message.devices()) {
      PluginDevice device{
          .id = entry.id(), .healthy = entry.health() == "Healthy", .numa_node = {}};
      if (entry.topology().nodes_size() > 0) device.numa_node = entry.topology().nodes(0).id();
      devices.push_back(std::move(device));
    }
    return devices;
  }

  void CancelList() override { list_context_.TryCancel(); }

 private:
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub_;
  grpc::ClientContext list_context_;
  std::unique_ptr<grpc::ClientReader<v1beta1::ListAndWatchResponse>> stream_;
};

}  // namespace

std::unique_ptr<FakeKubelet> FakeKubelet::Start(const std::filesystem::path& folder) {
  auto kubelet = std::make_unique<GrpcFakeKubelet>(folder);
  return kubelet->serving() ? std::move(kubelet) : nullptr;
}

std::unique_ptr<PluginClient> PluginClient::Connect(const std::filesystem::path& socket) {
  return std::make_unique<GrpcPluginClient>(socket);
}

}  // namespace pitcrew::rpc::testing

#include "rpc/testing/fake_pod_resources.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <mutex>
#include <utility>

#include "pod_resources_v1.grpc.pb.h"

namespace pitcrew::rpc::testing {
namespace {

class GrpcFakePodResources final : public FakePodResources,
                                   private ::v1::PodResourcesLister::Service {
 public:
  GrpcFakePodResources(const std::filesystem::path& socket, std::vector<PodDevices> pods)
      : pods_(std::move(pods)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fmt::format("unix:{}", socket.string()),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~GrpcFakePodResources() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  [[nodiscard]] bool serving() const { return server_ != nullptr; }
  void Set(std::vector<PodDevices> pods) override {
    const std::lock_guard lock(mutex_);
    pods_ = std::move(pods);
  }

 private:
  static ::v1::ContainerResources* Container(::v1::PodResources& pod, const std::string& name) {
    for (auto& container : *pod.mutable_containers()) {
      if (container.name() == name) return &container;
    }
    auto* added = pod.add_containers();
    added->set_name(name);
    return added;
  }

  grpc::Status List(grpc::ServerContext*, const ::v1::ListPodResourcesRequest*,
                    ::v1::ListPodResourcesResponse* answer) override {
    const std::lock_guard lock(mutex_);
    for (const auto& pod : pods_) {
      auto* added = answer->add_pod_resources();
      added->set_name(pod.pod_name);
      added->set_namespace_(pod.namespace_name);
      for (const auto& held : pod.devices) {
        auto* devices = Container(*added, held.container)->add_devices();
        devices->set_resource_name(held.resource);
        for (const auto& id : held.ids) devices->add_device_ids(id);
      }
      for (const auto& claimed : pod.claims) {
        auto* claim = Container(*added, claimed.container)->add_dynamic_resources();
        claim->set_claim_namespace(claimed.claim_namespace);
        claim->set_claim_name(claimed.claim_name);
        auto* device = claim->add_claim_resources();
        device->set_driver_name(claimed.driver);
        device->set_pool_name(claimed.pool);
        device->set_device_name(claimed.device);
      }
    }
    return grpc::Status::OK;
  }

  std::mutex mutex_;
  std::vector<PodDevices> pods_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<FakePodResources> FakePodResources::Start(const std::filesystem::path& socket,
                                                          std::vector<PodDevices> pods) {
  auto fake = std::make_unique<GrpcFakePodResources>(socket, std::move(pods));
  if (!fake->serving()) return nullptr;
  return fake;
}

}  // namespace pitcrew::rpc::testing

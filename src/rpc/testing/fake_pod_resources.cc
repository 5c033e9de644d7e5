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
  explicit GrpcFakePodResources(const std::filesystem::path& socket) {
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
  grpc::Status List(grpc::ServerContext*, const ::v1::ListPodResourcesRequest*,
                    ::v1::ListPodResourcesResponse* answer) override {
    const std::lock_guard lock(mutex_);
    for (const auto& pod : pods_) {
      auto* added = answer->add_pod_resources();
      added->set_name(pod.pod_name);
      added->set_namespace_(pod.namespace_name);
      auto* container = added->add_containers();
      container->set_name("main");
      for (const auto& held : pod.devices) {
        auto* devices = container->add_devices();
        devices->set_resource_name(held.resource);
        for (const auto& id : held.ids) devices->add_device_ids(id);
      }
    }
    return grpc::Status::OK;
  }

  std::mutex mutex_;
  std::vector<PodDevices> pods_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<FakePodResources> FakePodResources::Start(const std::filesystem::path& socket) {
  auto fake = std::make_unique<GrpcFakePodResources>(socket);
  if (!fake->serving()) return nullptr;
  return fake;
}

}  // namespace pitcrew::rpc::testing

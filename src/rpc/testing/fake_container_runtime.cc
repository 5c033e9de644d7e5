#include "rpc/testing/fake_container_runtime.h"

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "cri_v1.grpc.pb.h"

namespace pitcrew::rpc::testing {
namespace {

namespace cri = ::runtime::v1;

class GrpcFakeRuntime final : public FakeContainerRuntime, private cri::RuntimeService::Service {
 public:
  GrpcFakeRuntime(const std::filesystem::path& socket, bool with_interface, int refusals,
                  std::vector<std::string> handlers)
      : refusals_(refusals), handlers_(std::move(handlers)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(fmt::format("unix:{}", socket.string()),
                             grpc::InsecureServerCredentials());
    if (with_interface) builder.RegisterService(this);
    // A server must have a service; this one leaves every method to be "unimplemented".
    if (!with_interface) builder.RegisterCallbackGenericService(&nothing_);
    server_ = builder.BuildAndStart();
  }
  ~GrpcFakeRuntime() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  [[nodiscard]] bool serving() const { return server_ != nullptr; }
  [[nodiscard]] int refused() const override { return refused_; }
  [[nodiscard]] int answered() const override { return answered_; }

 private:
  grpc::Status Status(grpc::ServerContext*, const cri::StatusRequest*,
                      cri::StatusResponse* answer) override {
    if (refused_ < refusals_) {
      ++refused_;
      return {grpc::StatusCode::UNAVAILABLE, "server is not initialized yet: unavailable"};
    }
    for (const auto& name : handlers_) answer->add_runtime_handlers()->set_name(name);
    ++answered_;
    return grpc::Status::OK;
  }

  const int refusals_;
  const std::vector<std::string> handlers_;
  std::atomic<int> refused_ = 0;
  std::atomic<int> answered_ = 0;
  grpc::CallbackGenericService nothing_;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<FakeContainerRuntime> Make(const std::filesystem::path& socket, bool with_interface,
                                           int refusals, std::vector<std::string> handlers) {
  auto runtime =
      std::make_unique<GrpcFakeRuntime>(socket, with_interface, refusals, std::move(handlers));
  if (!runtime->serving()) return nullptr;
  return runtime;
}

}  // namespace

std::unique_ptr<FakeContainerRuntime> FakeContainerRuntime::Start(
    const std::filesystem::path& socket, int refusals, std::vector<std::string> handlers) {
  return Make(socket, true, refusals, std::move(handlers));
}

std::unique_ptr<FakeContainerRuntime> FakeContainerRuntime::StartWithoutInterface(
    const std::filesystem::path& socket) {
  return Make(socket, false, 0, {});
}

}  // namespace pitcrew::rpc::testing

#include "nri/testing/fake_runtime.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "nri_v1alpha1.pb.h"

namespace pitcrew::nri::testing {
namespace {

namespace wire = ::nri::v1alpha1;

void Fill(const Container& container, const std::string& id, wire::PodSandbox& pod,
          wire::Container& into) {
  pod.set_id("pod-" + id);
  pod.set_name(container.pod_name);
  pod.set_namespace_(container.pod_namespace);
  for (const auto& [key, value] : container.pod_annotations) {
    auto* annotation = pod.add_annotations();
    annotation->set_key(key);
    annotation->set_value(value);
  }
  into.set_id(id);
  into.set_pod_sandbox_id(pod.id());
  into.set_name(container.name);
  for (const auto& path : container.device_paths) {
    into.mutable_linux()->add_devices()->set_path(path);
  }
}

}  // namespace

FakeRuntime::FakeRuntime(const std::filesystem::path& socket)
    : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  std::filesystem::create_directories(socket.parent_path());
  std::filesystem::remove(socket);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener_.get(), 4) != 0) {
    throw std::runtime_error("cannot listen on " + socket.string());
  }
}

std::string FakeRuntime::Accept() {
  connection_ = base::FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  trunk_ = {};
  calls_ = {};
  received_.clear();
  stream_ = 0;
  wire::Request request;
  wire::RegisterPluginRequest registration;
  const auto call = Next(kRuntimeConnection);
  request.ParseFromString(call.data);
  registration.ParseFromString(request.payload());
  const auto answer = ToTrunk(kRuntimeConnection, ToCall(CallType::kResponse, call.stream,
                                                         wire::Response().SerializeAsString()));
  ::send(connection_.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  return registration.plugin_idx() + "-" + registration.plugin_name();
}

FakeRuntime::Answer FakeRuntime::Configure(const Runtime& runtime) {
  wire::ConfigureRequest request;
  request.set_runtime_name(runtime.name);
  request.set_runtime_version(runtime.version);
  return Call("Configure", request.SerializeAsString());
}

FakeRuntime::Answer FakeRuntime::Synchronize(const std::vector<Container>& containers) {
  wire::SynchronizeRequest request;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    Fill(containers[i], std::to_string(i), *request.add_pods(), *request.add_containers());
  }
  return Call("Synchronize", request.SerializeAsString());
}

std::vector<std::string> FakeRuntime::Create(const Container& container) {
  wire::CreateContainerRequest request;
  Fill(container, "new", *request.mutable_pod(), *request.mutable_container());
  wire::CreateContainerResponse response;
  response.ParseFromString(Call("CreateContainer", request.SerializeAsString()).payload);
  std::vector<std::string> names;
  for (const auto& device : response.adjust().cdi_devices()) names.push_back(device.name());
  return names;
}

FakeRuntime::Answer FakeRuntime::Call(const std::string& method, const std::string& payload) {
  wire::Request request;
  request.set_service("nri.pkg.api.v1alpha1.Plugin");
  request.set_method(method);
  request.set_payload(payload);
  stream_ += stream_ == 0 ? 1 : 2;
  const auto bytes =
      ToTrunk(kPluginConnection, ToCall(CallType::kRequest, stream_, request.SerializeAsString()));
  ::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  wire::Response response;
  response.ParseFromString(Next(kPluginConnection).data);
  return {response.status().code(), response.status().message(), response.payload()};
}

void FakeRuntime::AwaitEnd() {
  std::array<char, 4096> buffer{};
  while (::recv(connection_.get(), buffer.data(), buffer.size(), 0) > 0) {
  }
}

CallMessage FakeRuntime::Next(std::uint32_t connection) {
  std::array<char, 65536> buffer{};
  while (true) {
    const auto found =
        std::ranges::find(received_, connection, [](const auto& one) { return one.first; });
    if (found != received_.end()) {
      auto message = std::move(found->second);
      received_.erase(found);
      return message;
    }
    const auto count = ::recv(connection_.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) return {};
    const auto fed = trunk_.Feed({buffer.data(), static_cast<std::size_t>(count)},
                                 [&](std::uint32_t from, std::string_view piece) {
                                   calls_.Feed(piece, [&](CallMessage&& message) {
                                     received_.emplace_back(from, std::move(message));
                                   });
                                 });
    if (!fed) return {};
  }
}

}  // namespace pitcrew::nri::testing

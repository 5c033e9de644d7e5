#include <fmt/format.h>

#include <utility>

#include "nri/framing.h"
#include "nri/plugin.h"
#include "nri_v1alpha1.pb.h"

namespace pitcrew::nri {
namespace {

namespace wire = ::nri::v1alpha1;

constexpr std::string_view kPluginService = "nri.pkg.api.v1alpha1.Plugin";
constexpr std::string_view kRuntimeService = "nri.pkg.api.v1alpha1.Runtime";
// CREATE_CONTAINER alone: a bit that the runtime does not know would end the registration.
constexpr int kEvents = 0x08;

// google.rpc.Code.
constexpr int kInvalidArgument = 3;
constexpr int kResourceExhausted = 8;
constexpr int kFailedPrecondition = 9;
constexpr int kUnimplemented = 12;

Container From(const wire::PodSandbox& pod, const wire::Container& container) {
  Container found{
      .pod_name = pod.name(), .pod_namespace = pod.namespace_(), .name = container.name()};
  for (const auto& annotation : pod.annotations()) {
    found.pod_annotations.emplace(annotation.key(), annotation.value());
  }
  for (const auto& device : container.linux().devices()) {
    found.device_paths.push_back(device.path());
  }
  return found;
}

std::string Answer(std::uint32_t stream, std::string payload) {
  wire::Response response;
  response.set_payload(std::move(payload));
  return ToTrunk(kPluginConnection,
                 ToCall(CallType::kResponse, stream, response.SerializeAsString()));
}

std::string Refuse(std::uint32_t stream, int code, std::string message) {
  wire::Response response;
  response.mutable_status()->set_code(code);
  response.mutable_status()->set_message(std::move(message));
  return ToTrunk(kPluginConnection,
                 ToCall(CallType::kResponse, stream, response.SerializeAsString()));
}

}  // namespace

class Conversation::Parts {
 public:
  Parts(Identity identity, Handler& handler) : identity_(std::move(identity)), handler_(handler) {}

  [[nodiscard]] std::string Greeting() const {
    wire::RegisterPluginRequest registration;
    registration.set_plugin_name(identity_.name);
    registration.set_plugin_idx(fmt::format("{:02}", identity_.index));
    wire::Request request;
    request.set_service(std::string(kRuntimeService));
    request.set_method("RegisterPlugin");
    request.set_payload(registration.SerializeAsString());
    return ToTrunk(kRuntimeConnection, ToCall(CallType::kRequest, 1, request.SerializeAsString()));
  }

  base::Result<std::string> Receive(std::string_view bytes) {
    std::string out;
    const auto fed = trunk_.Feed(bytes, [&](std::uint32_t connection, std::string_view piece) {
      if (connection == kPluginConnection) {
        calls_.Feed(piece, [&](CallMessage&& call) { out += Serve(call); });
      } else if (connection == kRuntimeConnection) {
        answers_.Feed(piece, [&](CallMessage&& answer) { TakeAnswer(answer); });
      }
    });
    TRY(fed);
    TRY(registered_);
    return out;
  }

  base::Status configured;

 private:
  // To the one call that the plugin makes; others are of nobody.
  void TakeAnswer(const CallMessage& answer) {
    wire::Response response;
    if (answer.type != static_cast<std::uint8_t>(CallType::kResponse) || answer.stream != 1) return;
    if (!response.ParseFromString(answer.data) || response.status().code() == 0) return;
    registered_ = base::Fail(
        {base::Code::kDenied, "NriRegistrationRefused",
         fmt::format("the container runtime refused the plugin: {}", response.status().message())});
  }

  std::string Serve(const CallMessage& call) {
    if (call.type == static_cast<std::uint8_t>(CallType::kData)) {
      return Refuse(call.stream, kInvalidArgument, "StreamID is no longer active");
    }
    if (call.type != static_cast<std::uint8_t>(CallType::kRequest)) return "";
    if (call.stream % 2 == 0) {
      return Refuse(call.stream, kInvalidArgument,
                    "StreamID must be odd for client initiated streams");
    }
    if (call.stream <= last_stream_) {
      return Refuse(call.stream, kInvalidArgument, "StreamID cannot be re-used and must increment");
    }
    last_stream_ = call.stream;
    if (call.too_long) {
      return Refuse(call.stream, kResourceExhausted,
                    fmt::format("a message may have {} bytes", kLongestCall));
    }
    wire::Request request;
    if (!request.ParseFromString(call.data)) {
      return Refuse(call.stream, kInvalidArgument, "not a request of ttrpc");
    }
    if (request.service() != kPluginService) {
      return Refuse(call.stream, kUnimplemented, "service " + request.service());
    }
    return Dispatch(call.stream, request.method(), request.payload());
  }

  std::string Dispatch(std::uint32_t stream, const std::string& method,
                       const std::string& payload) {
    if (method == "CreateContainer") {
      return With<wire::CreateContainerRequest>(stream, payload, &Parts::CreateContainer);
    }
    if (method == "Configure") {
      return With<wire::ConfigureRequest>(stream, payload, &Parts::Configure);
    }
    if (method == "Synchronize") {
      return With<wire::SynchronizeRequest>(stream, payload, &Parts::Synchronize);
    }
    if (method == "Shutdown" || method == "StateChange") return Answer(stream, "");
    return Refuse(stream, kUnimplemented, "method " + method);
  }

  template <class Message>
  std::string With(std::uint32_t stream, const std::string& payload,
                   std::string (Parts::*call)(std::uint32_t, const Message&)) {
    Message message;
    if (!message.ParseFromString(payload)) {
      return Refuse(stream, kInvalidArgument, "not a message of NRI");
    }
    return (this->*call)(stream, message);
  }

  std::string Configure(std::uint32_t stream, const wire::ConfigureRequest& request) {
    configured = handler_.Configure({request.runtime_name(), request.runtime_version()});
    if (!configured) return Refuse(stream, kFailedPrecondition, configured.error().message);
    wire::ConfigureResponse response;
    response.set_events(kEvents);
    return Answer(stream, response.SerializeAsString());
  }

  // In pieces where there is much; a container's pod may have come with an earlier one.
  std::string Synchronize(std::uint32_t stream, const wire::SynchronizeRequest& request) {
    for (const auto& pod : request.pods()) pods_[pod.id()] = pod;
    for (const auto& container : request.containers()) {
      const auto pod = pods_.find(container.pod_sandbox_id());
      if (pod != pods_.end()) {
        handler_.TakeExisting(From(pod->second, container));
      } else if (request.more()) {
        early_.push_back(container);
      }
    }
    if (!request.more()) {
      for (const auto& container : std::exchange(early_, {})) {
        const auto pod = pods_.find(container.pod_sandbox_id());
        if (pod != pods_.end()) handler_.TakeExisting(From(pod->second, container));
      }
      pods_.clear();
    }
    wire::SynchronizeResponse response;
    response.set_more(request.more());
    return Answer(stream, response.SerializeAsString());
  }

  std::string CreateContainer(std::uint32_t stream, const wire::CreateContainerRequest& request) {
    const auto devices = handler_.DevicesFor(From(request.pod(), request.container()));
    if (!devices) return Refuse(stream, kFailedPrecondition, devices.error().message);
    wire::CreateContainerResponse response;
    auto* adjust = response.mutable_adjust();
    for (const auto& name : *devices) adjust->add_cdi_devices()->set_name(name);
    return Answer(stream, response.SerializeAsString());
  }

  const Identity identity_;
  Handler& handler_;
  TrunkReader trunk_;
  CallReader calls_;
  CallReader answers_;
  std::uint32_t last_stream_ = 0;
  base::Status registered_;
  std::map<std::string, wire::PodSandbox> pods_;  // while the runtime tells of those that there are
  std::vector<wire::Container> early_;            // whose pods have not come yet
};

Conversation::Conversation(const Identity& identity, Handler& handler)
    : parts_(std::make_unique<Parts>(identity, handler)) {}
Conversation::~Conversation() = default;

std::string Conversation::Greeting() const { return parts_->Greeting(); }

base::Result<std::string> Conversation::Receive(std::string_view bytes) {
  return parts_->Receive(bytes);
}

const base::Status& Conversation::configured() const { return parts_->configured; }

}  // namespace pitcrew::nri

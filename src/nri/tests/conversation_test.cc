// What the plugin says, as bytes: runtimes-and-distributions.md 9.9 and checklist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "nri/framing.h"
#include "nri/plugin.h"
#include "nri_v1alpha1.pb.h"

namespace pitcrew::nri {
namespace {

namespace wire = ::nri::v1alpha1;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits.push_back(c);
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class Recorder : public Handler {
 public:
  base::Status Configure(const Runtime& runtime) override {
    told.push_back(runtime.name + " " + runtime.version);
    return verdict;
  }
  void TakeExisting(const Container& container) override { existing.push_back(container); }
  base::Result<std::vector<std::string>> DevicesFor(const Container& container) override {
    created.push_back(container);
    return devices;
  }

  std::vector<std::string> told;
  base::Status verdict;
  std::vector<Container> existing, created;
  base::Result<std::vector<std::string>> devices = std::vector<std::string>{};
};

class ConversationTest : public ::testing::Test {
 protected:
  // A request of the runtime's on the trunk.
  static std::string Request(std::uint32_t stream, const std::string& method,
                             const std::string& payload,
                             const std::string& service = "nri.pkg.api.v1alpha1.Plugin") {
    wire::Request request;
    request.set_service(service);
    request.set_method(method);
    request.set_payload(payload);
    return ToTrunk(1, ToCall(CallType::kRequest, stream, request.SerializeAsString()));
  }
  static std::string Create() {
    wire::CreateContainerRequest request;
    request.mutable_pod()->set_name("train");
    request.mutable_pod()->set_namespace_("team");
    auto* annotation = request.mutable_pod()->add_annotations();
    annotation->set_key("a");
    annotation->set_value("b");
    request.mutable_container()->set_name("main");
    return request.SerializeAsString();
  }
  std::string Say(const std::string& bytes) {
    auto answer = conversation_.Receive(bytes);
    EXPECT_TRUE(answer) << answer.error().ToString();
    return answer.value_or("");
  }
  // The status of the one answer in `bytes`.
  static wire::Status StatusIn(const std::string& bytes) {
    wire::Response response;
    EXPECT_TRUE(response.ParseFromString(bytes.substr(8 + kCallHeaderBytes)));
    return response.status();
  }

  Recorder handler_;
  Conversation conversation_{{"ctk", 10}, handler_};
};

TEST_F(ConversationTest, SaysWhatTheDocumentSays) {
  RecordProperty("holds", "runtimes-and-distributions.md #41 and #44");
  EXPECT_EQ(conversation_.Greeting(),
            FromHex("00000002 00000043 00000039 00000001 01 00"
                    "0a1c 6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
                    "120e 5265676973746572506c7567696e 1a09 0a0363746b 12023130"));
  wire::ConfigureRequest configure;
  configure.set_runtime_name("containerd");
  configure.set_runtime_version("v2.2.0");
  EXPECT_EQ(Say(Request(1, "Configure", configure.SerializeAsString())),
            FromHex("00000001 0000000e 00000004 00000001 02 00 1202 1008"));
  EXPECT_THAT(handler_.told, ElementsAre("containerd v2.2.0"));
  EXPECT_EQ(Say(Request(3, "Synchronize", "")),
            FromHex("00000001 0000000a 00000000 00000003 02 00"));
  handler_.devices = std::vector<std::string>{"management.nvidia.com/gpu=all"};
  EXPECT_EQ(Say(Request(5, "CreateContainer", Create())),
            FromHex("00000001 0000002f 00000025 00000005 02 00 1223 0a21 421f 0a1d"
                    "6d616e6167656d656e742e6e76696469612e636f6d2f6770753d616c6c"));
  handler_.devices = std::vector<std::string>{};
  EXPECT_EQ(Say(Request(7, "CreateContainer", Create())),
            FromHex("00000001 0000000e 00000004 00000007 02 00 1202 0a00"));
  ASSERT_THAT(handler_.created, SizeIs(2));
  EXPECT_EQ(handler_.created[0].pod_name, "train");
  EXPECT_EQ(handler_.created[0].pod_namespace, "team");
  EXPECT_EQ(handler_.created[0].name, "main");
  EXPECT_EQ(handler_.created[0].pod_annotations.at("a"), "b");
}

TEST_F(ConversationTest, AnIndexHasTwoDigits) {
  RecordProperty("holds", "runtimes-and-distributions.md #42");
  EXPECT_THAT(Conversation({"ctk", 7}, handler_).Greeting(), ::testing::EndsWith("07"));
}

TEST_F(ConversationTest, UnderstandsWhatIsCutAnywhere) {
  RecordProperty("holds", "runtimes-and-distributions.md #47");
  // Also across frames of the trunk: every byte in a frame of its own.
  const auto call = Request(1, "CreateContainer", Create()).substr(8);
  std::string out;
  for (const char byte : call) {
    for (const char one : ToTrunk(1, std::string_view(&byte, 1))) {
      out += Say(std::string(1, one));
    }
  }
  EXPECT_EQ(out, FromHex("00000001 0000000e 00000004 00000001 02 00 1202 0a00"));
}

TEST_F(ConversationTest, ServesBeforeItsRegistrationIsAnswered) {
  RecordProperty("holds", "runtimes-and-distributions.md #43, #49 and #54");
  // A frame of nobody's, a question, the answer to the registration (code 0, nothing else), a
  // question.
  const auto answered = ToTrunk(2, ToCall(CallType::kResponse, 1, ""));
  const auto out = Say(ToTrunk(7, "whatever") + Request(1, "Configure", "") + answered +
                       Request(3, "Synchronize", ""));
  EXPECT_EQ(out, FromHex("00000001 0000000e 00000004 00000001 02 00 1202 1008") +
                     FromHex("00000001 0000000a 00000000 00000003 02 00"));
}

TEST_F(ConversationTest, ARefusedRegistrationEndsIt) {
  wire::Response response;
  response.mutable_status()->set_code(2);
  response.mutable_status()->set_message("no plugins today");
  const auto ended = conversation_.Receive(
      ToTrunk(2, ToCall(CallType::kResponse, 1, response.SerializeAsString())));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "NriRegistrationRefused");
  EXPECT_THAT(ended.error().message, ::testing::HasSubstr("no plugins today"));
}

TEST_F(ConversationTest, RefusesARuntimeInItsOwnWords) {
  handler_.verdict = base::Fail({base::Code::kUnsupported, "NriNotSupported", "too old"});
  const auto status = StatusIn(Say(Request(1, "Configure", "")));
  EXPECT_EQ(status.code(), 9);
  EXPECT_EQ(status.message(), "too old");
  EXPECT_EQ(conversation_.configured().error().reason, "NriNotSupported");
}

TEST_F(ConversationTest, AContainerCanBeRefused) {
  handler_.devices = base::Fail(base::Invalid("No", "not this one"));
  EXPECT_EQ(StatusIn(Say(Request(1, "CreateContainer", Create()))).message(), "not this one");
}

TEST_F(ConversationTest, TakesWhatIsThereInPieces) {
  RecordProperty("holds", "runtimes-and-distributions.md #45 and #46");
  wire::SynchronizeRequest first;
  first.mutable_containers()->Add()->set_pod_sandbox_id("p");  // its pod comes later
  first.mutable_containers(0)->set_name("early");
  first.set_more(true);
  // A field that no version of today has.
  const auto answer =
      Say(Request(1, "Synchronize", first.SerializeAsString() + FromHex("fa0603616263")));
  EXPECT_EQ(answer, FromHex("00000001 0000000e 00000004 00000001 02 00 1202 1001"));
  EXPECT_THAT(handler_.existing, IsEmpty());
  wire::SynchronizeRequest second;
  second.add_pods()->set_id("p");
  second.mutable_pods(0)->set_namespace_("team");
  second.mutable_containers()->Add()->set_pod_sandbox_id("p");
  second.mutable_containers(0)->set_name("late");
  second.mutable_containers(0)->mutable_linux()->add_devices()->set_path("/dev/nvidia0");
  EXPECT_EQ(Say(Request(3, "Synchronize", second.SerializeAsString())),
            FromHex("00000001 0000000a 00000000 00000003 02 00"));
  ASSERT_THAT(handler_.existing, SizeIs(2));
  EXPECT_EQ(handler_.existing[0].name, "late");
  EXPECT_THAT(handler_.existing[0].device_paths, ElementsAre("/dev/nvidia0"));
  EXPECT_EQ(handler_.existing[1].name, "early");
  EXPECT_EQ(handler_.existing[1].pod_namespace, "team");
}

TEST_F(ConversationTest, KnowsTheRulesOfStreams) {
  RecordProperty("holds", "runtimes-and-distributions.md #51 and #52");
  EXPECT_EQ(StatusIn(Say(Request(2, "Configure", ""))).code(), 3);
  Say(Request(5, "Configure", ""));
  EXPECT_EQ(StatusIn(Say(Request(5, "Configure", ""))).code(), 3);
  EXPECT_EQ(StatusIn(Say(Request(3, "Configure", ""))).code(), 3);
  EXPECT_EQ(StatusIn(Say(ToTrunk(1, ToCall(CallType::kData, 5, "x")))).code(), 3);
  const auto service = StatusIn(Say(Request(7, "Configure", "", "other.Service")));
  EXPECT_EQ(service.code(), 12);
  EXPECT_EQ(service.message(), "service other.Service");
  EXPECT_EQ(StatusIn(Say(Request(9, "StopContainer", ""))).code(), 12);
  EXPECT_EQ(StatusIn(Say(Request(11, "CreateContainer", "\xff"))).code(), 3);
  EXPECT_EQ(StatusIn(Say(ToTrunk(1, ToCall(CallType::kRequest, 13, "\xff")))).code(), 3);
  EXPECT_EQ(Say(ToTrunk(1, ToCall(CallType::kResponse, 15, ""))), "");
  EXPECT_EQ(StatusIn(Say(Request(17, "Shutdown", ""))).code(), 0);
  EXPECT_EQ(StatusIn(Say(Request(19, "StateChange", ""))).code(), 0);
  EXPECT_EQ(StatusIn(Say(Request(21, "CreateContainer", Create()))).code(), 0);
}

TEST_F(ConversationTest, SkipsWhatIsTooLong) {
  RecordProperty("holds", "runtimes-and-distributions.md #53");
  auto header = ToCall(CallType::kRequest, 1, "");
  const std::uint32_t length = kLongestCall + 1;
  for (unsigned i = 0; i < 4; ++i) header[i] = static_cast<char>(length >> (24 - 8 * i));
  std::string out = Say(ToTrunk(1, header));
  const std::string piece(1 << 16, 'x');
  for (std::size_t sent = 0; sent < length;) {
    const auto count = std::min<std::size_t>(piece.size(), length - sent);
    out += Say(ToTrunk(1, std::string_view(piece).substr(0, count)));
    sent += count;
  }
  EXPECT_EQ(StatusIn(out).code(), 8);
  EXPECT_EQ(StatusIn(Say(Request(3, "CreateContainer", Create()))).code(), 0);
}

// Beside the fuzz target `nri`.
TEST_F(ConversationTest, BytesWithoutSenseAreAnsweredByNothingOrAnError) {
  RecordProperty("holds", "runtimes-and-distributions.md #64");
  std::mt19937 random(1);  // NOLINT: the same in every run
  for (int round = 0; round < 200; ++round) {
    Conversation conversation({"ctk", 10}, handler_);
    std::string bytes;
    for (int i = 0; i < 400; ++i) bytes.push_back(static_cast<char>(random()));
    // Half of them as a message in good frames.
    if (round % 2 == 0) bytes = ToTrunk(1, ToCall(CallType::kRequest, 1, bytes));
    const auto answer = conversation.Receive(bytes);
    EXPECT_LT(answer.value_or("").size(), 200U);
  }
  EXPECT_THAT(handler_.created, IsEmpty());
}

TEST_F(ConversationTest, AFrameBeyondTheLimitEndsIt) {
  std::string frame = ToTrunk(1, "x").substr(0, 8);
  frame[4] = '\x7f';
  const auto ended = conversation_.Receive(frame);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "NriTrunk");
}

TEST(NriTrunk, LongMessagesAreTwoFrames) {
  RecordProperty("holds", "runtimes-and-distributions.md #48");
  const std::string message(10000, 'm');
  const auto frames = ToTrunk(1, message);
  EXPECT_EQ(frames.substr(0, 8), FromHex("00000001 00001000"));
  EXPECT_EQ(frames.substr(8 + 4096, 8), FromHex("00000001 00001710"));
  std::string joined;
  TrunkReader reader;
  ASSERT_TRUE(
      reader.Feed(frames, [&](std::uint32_t /*id*/, std::string_view piece) { joined += piece; }));
  EXPECT_EQ(joined, message);
}

}  // namespace
}  // namespace pitcrew::nri

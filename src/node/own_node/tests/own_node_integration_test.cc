// One's own Node on a real kube-apiserver.
#include "node/own_node/own_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "apiserver/api_server.h"
#include "node/own_node/label_follower.h"
#include "node/own_node/label_watch.h"
#include "tests/support/patience.h"

namespace pitcrew::node::own_node {
namespace {

using namespace std::chrono_literals;
using codec::Json;
using ::pitcrew::testing::ApiServer;
using ::testing::HasSubstr;

constexpr const char* kConfig = "nvidia.com/mig.config";
constexpr const char* kState = "nvidia.com/mig.config.state";

class OwnNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    name_ = "own-node-" + std::to_string(++counter_);
    ASSERT_TRUE(client_->Create(
        kube::kNodes, {{"metadata", {{"name", name_}, {"labels", {{"a", "1"}, {"b", "2"}}}}}}));
  }
  OwnNode Make() {
    return {client_, {.node_name = name_, .component = "test-manager", .pod_name = "pod-1"}};
  }
  // As somebody else.
  void SetLabel(const std::string& label, const Json& value) {
    const auto set = client_->Patch(kube::kNodes, {"", name_}, kube::PatchType::kMerge,
                                    {{"metadata", {{"labels", {{label, value}}}}}});
    ASSERT_TRUE(set) << set.error().ToString();
  }
  // Whether the watch rings until the label has that value.
  static bool Becomes(LabelWatch& watch, const char* label,
                      const std::optional<std::string>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + test_support::kPatience;
    while (true) {
      watch.Take();
      const auto value = watch.Value(label);
      if (wanted ? value.is_present() && *value.value() == *wanted : value.is_absent()) return true;
      if (!io::WaitReadable({watch.fd()}, {}, deadline)) return false;
    }
  }

  static int counter_;
  std::shared_ptr<kube::Client> client_;
  std::string name_;
};
int OwnNodeTest::counter_ = 0;

TEST_F(OwnNodeTest, PatchesSetAndRemove) {
  const auto node = Make();
  ASSERT_TRUE(node.Patch(LabelPatch(kState, "pending"), {}));
  ASSERT_TRUE(node.Patch(LabelPatch("a", std::nullopt), {}));
  ASSERT_TRUE(node.Patch(AnnotationPatch("note", "x"), {}));
  const auto live = *node.Read({});
  EXPECT_EQ(LabelOf(live, kState), "pending");
  EXPECT_EQ(codec::Find(live, {"metadata", "labels", "a"}), nullptr);
  EXPECT_EQ(LabelOf(live, "b"), "2");
  EXPECT_EQ(AnnotationOf(live, "note"), "x");
  const auto missing = OwnNode(client_, {.node_name = "missing", .component = "c", .pod_name = ""})
                           .Patch(LabelPatch("a", "1"), {});
  EXPECT_EQ(missing.error().code, base::Code::kNotFound) << "is not tried for a minute";
}

TEST_F(OwnNodeTest, AChangeIsDecidedAnewWhenAnotherCameFirst) {
  const auto node = Make();
  int decisions = 0;
  const auto seen = node.Change(
      [&](const Json& live) -> std::optional<Json> {
        // Another one writes between reading and writing.
        if (++decisions == 1) SetLabel("a", "other");
        return LabelPatch("a", LabelOf(live, "a") + "-mine");
      },
      {});
  ASSERT_TRUE(seen) << seen.error().ToString();
  EXPECT_EQ(decisions, 2);
  EXPECT_EQ(LabelOf(*node.Read({}), "a"), "other-mine") << "the other's edit is not lost";
}

TEST_F(OwnNodeTest, NothingIsSentWhenNothingHasToChange) {
  const auto node = Make();
  const auto before = LabelOf(*node.Read({}), "a");
  const auto version = [&] {
    return codec::FindString(*node.Read({}), {"metadata", "resourceVersion"});
  };
  const auto old = version();
  ASSERT_TRUE(node.Change([](const Json&) { return std::nullopt; }, {}));
  EXPECT_EQ(version(), old);
  EXPECT_EQ(before, "1");
}

TEST_F(OwnNodeTest, EventsAreFoundByTheNodesName) {
  auto node = Make();
  node.Record(kube::EventType::kWarning, "ConfigRejected", "no such configuration: x");
  node.FlushEvents();
  kube::ListOptions about;
  about.field_selector = "involvedObject.kind=Node,involvedObject.name=" + name_;
  const auto events = client_->List(kube::kEvents, "", about);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->items.size(), 1U);
  const auto& event = events->items.front();
  EXPECT_EQ(codec::FindString(event, {"reason"}), "ConfigRejected");
  EXPECT_EQ(codec::FindString(event, {"type"}), "Warning");
  EXPECT_EQ(codec::FindString(event, {"involvedObject", "uid"}), name_);
  EXPECT_EQ(codec::FindString(event, {"source", "component"}), "test-manager");
}

TEST_F(OwnNodeTest, ALabelIsFollowed) {
  auto started = LabelWatch::Start(client_, name_, {kConfig, "a"});
  ASSERT_TRUE(started);
  auto& watch = **started;
  ASSERT_TRUE(watch.WaitUntilKnown({}));
  EXPECT_TRUE(watch.Value(kConfig).is_absent());
  EXPECT_EQ(*watch.Value("a").value(), "1");
  SetLabel(kConfig, "all-1g.10gb");
  EXPECT_TRUE(Becomes(watch, kConfig, "all-1g.10gb"));
  SetLabel(kConfig, nullptr);
  EXPECT_TRUE(Becomes(watch, kConfig, std::nullopt));
}

TEST_F(OwnNodeTest, OtherLabelsDoNotWake) {
  auto started = LabelWatch::Start(client_, name_, {kConfig});
  ASSERT_TRUE(started);
  auto& watch = **started;
  ASSERT_TRUE(watch.WaitUntilKnown({}));
  SetLabel(kConfig, "x");
  ASSERT_TRUE(Becomes(watch, kConfig, "x"));
  SetLabel("unrelated", "1");
  SetLabel(kConfig, "y");
  int rings = 0;
  while (!(watch.Value(kConfig).is_present() && *watch.Value(kConfig).value() == "y")) {
    ASSERT_TRUE(io::WaitReadable({watch.fd()}, {},
                                 std::chrono::steady_clock::now() + test_support::kPatience));
    watch.Take();
    ++rings;
  }
  EXPECT_LE(rings, 1);
}

TEST_F(OwnNodeTest, TidyingUpThatFailsIsTriedAgainWithoutAnybodysDoing) {
  auto watch = LabelWatch::Start(client_, name_, {kConfig});
  ASSERT_TRUE(watch);
  ASSERT_TRUE((*watch)->WaitUntilKnown({}));
  FollowSettings follow;
  follow.label = kConfig;
  follow.first_retry = 1s;
  int times = 0;
  std::promise<void> tidy;
  follow.nothing_wanted = [&]() -> base::Status {
    if (++times == 1) return base::Fail(base::Invalid("HalfDone", "a GPU does not answer"));
    if (times == 2) tidy.set_value();
    return {};
  };
  const io::StopSource stop;
  std::thread follower([&] { EXPECT_TRUE(FollowLabel(**watch, follow, stop.token())); });
  EXPECT_EQ(tidy.get_future().wait_for(test_support::kPatience), std::future_status::ready);
  stop.Stop();
  follower.join();
}

TEST(LabelWatch, IsUnknownWithoutAnAnswerAndOutlivesAnApiServer) {
  auto server = ApiServer::Start();
  ASSERT_TRUE(server) << server.error().ToString();
  const auto client = (*server)->MakeClient();
  ASSERT_TRUE(client->Create(kube::kNodes, {{"metadata", {{"name", "n"}}}}));
  (*server)->StopServer();
  auto watch = LabelWatch::Start(client, "n", {kConfig});
  ASSERT_TRUE(watch);
  EXPECT_TRUE((*watch)->Value(kConfig).is_unknown());
  EXPECT_EQ((*watch)->WaitUntilKnown({}, std::chrono::steady_clock::now()).error().code,
            base::Code::kTimeout);
  ASSERT_TRUE((*server)->StartServer());
  EXPECT_TRUE((*watch)->WaitUntilKnown({}));
  EXPECT_TRUE((*watch)->Value(kConfig).is_absent());
}

}  // namespace
}  // namespace pitcrew::node::own_node

#include "kube/events.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using Kind = EventAggregator::Decision::Kind;
using std::chrono::seconds;

const auto kNow = base::WallClock::time_point(seconds(1'800'000'000));

Event MakeEvent(const std::string& name, const std::string& message = "m") {
  return {.about = {.api_version = "v1", .kind = "Node", .key = {.name = name}, .uid = "u"},
          .type = EventType::kWarning,
          .reason = "Reason",
          .message = message};
}

TEST(Events, ARepetitionCountsUp) {
  EventAggregator aggregator;
  const auto first = aggregator.Decide(MakeEvent("n"), kNow);
  EXPECT_EQ(first.kind, Kind::kCreate);
  const auto second = aggregator.Decide(MakeEvent("n"), kNow + seconds(5));
  EXPECT_EQ(second.kind, Kind::kCount);
  EXPECT_EQ(second.name, first.name);
  EXPECT_EQ(second.count, 2);
  EXPECT_EQ(second.first_seen, kNow);
  const auto other = aggregator.Decide(MakeEvent("n", "other"), kNow);
  EXPECT_EQ(other.kind, Kind::kCreate);
  EXPECT_NE(other.name, first.name);
}

TEST(Events, TheSameEventHasTheSameNameInEveryProcess) {
  EXPECT_EQ(EventAggregator().Decide(MakeEvent("n"), kNow).name,
            EventAggregator().Decide(MakeEvent("n"), kNow + seconds(99)).name);
}

TEST(Events, AnObjectThatTalksTooMuchIsSilenced) {
  EventAggregator aggregator;
  for (int i = 0; i < 25; ++i) {
    EXPECT_NE(aggregator.Decide(MakeEvent("n", std::to_string(i)), kNow).kind, Kind::kSilence);
  }
  EXPECT_EQ(aggregator.Decide(MakeEvent("n", "more"), kNow).kind, Kind::kSilence);
  EXPECT_EQ(aggregator.Decide(MakeEvent("other"), kNow).kind, Kind::kCreate);
  EXPECT_EQ(aggregator.Decide(MakeEvent("n", "more"), kNow + seconds(301)).kind, Kind::kCreate);
}

TEST(Events, OnlyTheRecentOnesAreRemembered) {
  EventAggregator aggregator({.remembered = 2});
  aggregator.Decide(MakeEvent("a"), kNow);
  aggregator.Decide(MakeEvent("b"), kNow);
  aggregator.Decide(MakeEvent("a"), kNow);
  aggregator.Decide(MakeEvent("c"), kNow);  // b is the oldest
  EXPECT_EQ(aggregator.Decide(MakeEvent("a"), kNow).kind, Kind::kCount);
  EXPECT_EQ(aggregator.Decide(MakeEvent("b"), kNow).kind, Kind::kCreate);
}

TEST(Events, CountsGoOnFromTheServersOnes) {
  EventAggregator aggregator;
  aggregator.Decide(MakeEvent("a"), kNow);
  aggregator.Adopt(MakeEvent("a"), 41);
  EXPECT_EQ(aggregator.Decide(MakeEvent("a"), kNow).count, 42);
}

TEST(Events, TheObjectIsWhatKubectlShows) {
  EventAggregator aggregator;
  const Event event = MakeEvent("n", std::string(2000, 'm'));
  const auto decision = aggregator.Decide(event, kNow);
  const auto object = MakeEventObject(event, decision, "component", "host", kNow);
  EXPECT_EQ(object["metadata"]["namespace"], "default");  // nodes have none
  EXPECT_EQ(object["type"], "Warning");
  EXPECT_EQ(object["count"], 1);
  EXPECT_EQ(object["source"]["component"], "component");
  EXPECT_EQ(object["firstTimestamp"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(object["message"].get<std::string>().size(), 1024U);
  EXPECT_EQ(object["involvedObject"],
            (codec::Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n"}, {"uid", "u"}}));
  const auto long_name = aggregator.Decide(MakeEvent(std::string(253, 'n')), kNow).name;
  EXPECT_EQ(long_name.size(), 253U);
}

}  // namespace
}  // namespace pitcrew::kube

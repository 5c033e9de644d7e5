#include "kube/events.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using Kind = EventAggregator::Decision::Kind;
using std::chrono::seconds;

const auto kToday = base::WallClock::time_point(seconds(1'800'000'000));

Event MakeEvent(const std::string& name, const std::string& message = "m") {
  return {.about = {.api_version = "v1", .kind = "Node", .key = {.name = name}, .uid = "u"},
          .type = EventType::kWarning,
          .reason = "Reason",
          .message = message};
}

TEST(Events, ARepetitionCountsUp) {
  EventAggregator aggregator;
  const auto first = aggregator.Decide(MakeEvent("n"), kToday);
  EXPECT_EQ(first.kind, Kind::kCreate);
  const auto second = aggregator.Decide(MakeEvent("n"), kToday + seconds(5));
  EXPECT_EQ(second.kind, Kind::kCount);
  EXPECT_EQ(second.name, first.name);
  EXPECT_EQ(second.count, 2);
  EXPECT_EQ(second.first_seen, kToday);
  const auto other = aggregator.Decide(MakeEvent("n", "other"), kToday);
  EXPECT_EQ(other.kind, Kind::kCreate);
  EXPECT_NE(other.name, first.name);
}

TEST(Events, TheSameEventHasTheSameNameInEveryProcess) {
  EXPECT_EQ(EventAggregator().Decide(MakeEvent("n"), kToday).name,
            EventAggregator().Decide(MakeEvent("n"), kToday + seconds(99)).name);
}

TEST(Events, AnObjectThatTalksTooMuchIsSilenced) {
  EventAggregator aggregator;
  for (int i = 0; i < 25; ++i) {
    EXPECT_NE(aggregator.Decide(MakeEvent("n", std::to_string(i)), kToday).kind, Kind::kSilence);
  }
  EXPECT_EQ(aggregator.Decide(MakeEvent("n", "more"), kToday).kind, Kind::kSilence);
  EXPECT_EQ(aggregator.Decide(MakeEvent("other"), kToday).kind, Kind::kCreate);
  EXPECT_EQ(aggregator.Decide(MakeEvent("n", "more"), kToday + seconds(301)).kind, Kind::kCreate);
}

TEST(Events, OnlyTheRecentOnesAreRemembered) {
  EventAggregator aggregator({.remembered = 2});
  aggregator.Decide(MakeEvent("a"), kToday);
  aggregator.Decide(MakeEvent("b"), kToday);
  aggregator.Decide(MakeEvent("a"), kToday);
  aggregator.Decide(MakeEvent("c"), kToday);  // b is the oldest
  EXPECT_EQ(aggregator.Decide(MakeEvent("a"), kToday).kind, Kind::kCount);
  EXPECT_EQ(aggregator.Decide(MakeEvent("b"), kToday).kind, Kind::kCreate);
}

TEST(Events, CountsGoOnFromTheServersOnes) {
  EventAggregator aggregator;
  aggregator.Decide(MakeEvent("a"), kToday);
  aggregator.Adopt(MakeEvent("a"), 41);
  EXPECT_EQ(aggregator.Decide(MakeEvent("a"), kToday).count, 42);
}

TEST(Events, TheObjectIsWhatKubectlShows) {
  EventAggregator aggregator;
  const Event event = MakeEvent("n", std::string(2000, 'm'));
  const auto decision = aggregator.Decide(event, kToday);
  const auto object = MakeEventObject(event, decision, "component", "host", kToday);
  EXPECT_EQ(object["metadata"]["namespace"], "default");  // nodes have none
  EXPECT_EQ(object["type"], "Warning");
  EXPECT_EQ(object["count"], 1);
  EXPECT_EQ(object["source"]["component"], "component");
  EXPECT_EQ(object["firstTimestamp"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(object["message"].get<std::string>().size(), 1024U);
  EXPECT_EQ(object["involvedObject"],
            (codec::Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n"}, {"uid", "u"}}));
  const auto long_name = aggregator.Decide(MakeEvent(std::string(253, 'n')), kToday).name;
  EXPECT_EQ(long_name.size(), 253U);
}

}  // namespace
}  // namespace pitcrew::kube

// What readers of the feed are sent, and when.
#include "dashboard/feed.h"

#include <gtest/gtest.h>

#include <thread>

namespace pitcrew::dashboard {
namespace {

// Of waits that end by something else.
base::SteadyClock::time_point Patience() {
  return base::SteadyClock::now() + std::chrono::seconds(60);
}
base::SteadyClock::time_point Now() { return base::SteadyClock::now(); }

TEST(FeedTest, TellsTheWholeFirstAndThenWhatChanges) {
  Feed feed;
  EXPECT_EQ(feed.Whole(), nullptr);
  EXPECT_FALSE(feed.Next("", Now()));
  feed.Publish({{"node/a", "1"}, {"node/b", "2"}});
  const auto first = feed.Next("", Now());
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->whole);
  EXPECT_EQ(*first->json, R"({"set":{"node/a":1,"node/b":2}})");
  feed.Publish({{"node/a", "1"}, {"node/b", "3"}});
  feed.Publish({{"node/a", "1"}});
  const auto second = feed.Next(first->id, Now());
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->whole);
  EXPECT_EQ(*second->json, R"({"set":{"node/b":3}})");
  const auto third = feed.Next(second->id, Now());
  ASSERT_TRUE(third);
  EXPECT_EQ(*third->json, R"({"gone":["node/b"]})");
  EXPECT_FALSE(feed.Next(third->id, Now()));
}

TEST(FeedTest, APictureThatIsTheSameIsNoNews) {
  Feed feed;
  feed.Publish({{"node/a", "1"}});
  const auto first = feed.Next("", Now());
  feed.Publish({{"node/a", "1"}});
  EXPECT_FALSE(feed.Next(first->id, Now()));
}

// A reader who is too far behind, comes from another process or makes up an id gets the whole.
TEST(FeedTest, WhatIsNotKeptIsToldAsAWhole) {
  Feed feed(30);
  feed.Publish({{"a", "0"}});
  const auto first = feed.Next("", Now());
  for (const char* value : {"1", "2", "3"}) feed.Publish({{"a", value}});
  const auto second = feed.Next(first->id, Now());
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->whole);
  EXPECT_EQ(*second->json, R"({"set":{"a":3}})");
  EXPECT_FALSE(feed.Next(second->id, Now()));
  Feed other;
  other.Publish({{"a", "9"}});
  EXPECT_TRUE(other.Next(second->id, Now())->whole);
  const std::string ahead = second->id.substr(0, second->id.find('-')) + "-1000";
  EXPECT_TRUE(feed.Next(ahead, Now())->whole);
}

TEST(FeedTest, WakesWhoWaits) {
  Feed feed;
  std::optional<FeedMessage> seen;
  std::thread reader([&] { seen = feed.Next("", Patience()); });
  feed.Publish({{"a", "1"}});
  reader.join();
  ASSERT_TRUE(seen);
  std::optional<FeedMessage> last = seen;
  std::thread waiting([&] { last = feed.Next(seen->id, Patience()); });
  feed.Close();
  waiting.join();
  EXPECT_FALSE(last);
  EXPECT_TRUE(feed.closed());
}

// However many read it, the text of the whole exists once, and only while somebody has it.
TEST(FeedTest, TheWholeIsMadeForAllReadersTogether) {
  Feed feed;
  feed.Publish({{"a", "1"}});
  const auto one = feed.Next("", Now());
  const auto two = feed.Next("", Now());
  EXPECT_EQ(one->json.get(), two->json.get());
}

}  // namespace
}  // namespace pitcrew::dashboard

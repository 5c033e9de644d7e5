#include "kube/leader.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using base::SteadyClock;
using base::WallClock;
using std::chrono::seconds;

const LeaderOptions kOptions{.lease = {.namespace_name = "n", .name = "l"}, .identity = "me"};
const auto kWall = WallClock::time_point(seconds(1'800'000'000));
const auto kNow = SteadyClock::time_point(seconds(1000));

LeaseRecord HeldBy(const std::string& holder) {
  return {.holder = holder,
          .duration = seconds(15),
          .acquired = kWall - seconds(100),
          .renewed = kWall - seconds(90),
          .transitions = 4};
}

TEST(Leader, AFreeLeaseIsTaken) {
  const auto record = NextLeaseRecord(kOptions, std::nullopt, kWall, kNow);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->holder, "me");
  EXPECT_EQ(record->duration, seconds(15));
  EXPECT_EQ(record->acquired, kWall);
  EXPECT_EQ(record->transitions, 0);
}

TEST(Leader, OurOwnLeaseIsRenewed) {
  const auto record =
      NextLeaseRecord(kOptions, ObservedLease{HeldBy("me"), kNow - seconds(60)}, kWall, kNow);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->acquired, kWall - seconds(100));
  EXPECT_EQ(record->renewed, kWall);
  EXPECT_EQ(record->transitions, 4);
}

TEST(Leader, AnothersLeaseIsJudgedByWhenWeSawItNotByItsClock) {
  // Its renewTime is 90 s old by our wall clock, but we have seen it change 14 s ago.
  EXPECT_FALSE(
      NextLeaseRecord(kOptions, ObservedLease{HeldBy("you"), kNow - seconds(14)}, kWall, kNow));
  const auto record =
      NextLeaseRecord(kOptions, ObservedLease{HeldBy("you"), kNow - seconds(15)}, kWall, kNow);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->holder, "me");
  EXPECT_EQ(record->acquired, kWall);
  EXPECT_EQ(record->transitions, 5);
}

TEST(Leader, AReleasedLeaseIsTakenAtOnce) {
  EXPECT_TRUE(NextLeaseRecord(kOptions, ObservedLease{HeldBy(""), kNow}, kWall, kNow));
}

TEST(Leader, RecordsReadBack) {
  codec::Json lease;
  WriteLease(lease, HeldBy("you"));
  EXPECT_EQ(lease["spec"]["holderIdentity"], "you");
  EXPECT_EQ(lease["spec"]["leaseDurationSeconds"], 15);
  EXPECT_EQ(lease["spec"]["renewTime"], "2027-01-15T07:58:30.000000Z");
  EXPECT_EQ(ReadLease(lease), HeldBy("you"));
  EXPECT_EQ(ReadLease(codec::Json::object()), LeaseRecord());
}

TEST(Leader, IdentitiesDiffer) { EXPECT_NE(MakeLeaderIdentity(), MakeLeaderIdentity()); }

}  // namespace
}  // namespace pitcrew::kube

// Deadlines and wake-ups.
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "base/bell.h"
#include "base/deadline.h"

namespace pitcrew::base {
namespace {

using namespace std::chrono_literals;

constexpr SteadyClock::time_point kNow{1000h};

TEST(Deadline, ADefaultOneNeverPassesAndIsTheLatest) {
  const Deadline never;
  EXPECT_TRUE(never.never());
  EXPECT_FALSE(never.passed());
  EXPECT_EQ(never.left(), SteadyClock::duration::max());
  EXPECT_EQ(never.poll_milliseconds(), -1);
  EXPECT_EQ(std::min<Deadline>(never, kNow), Deadline(kNow));
  EXPECT_EQ(never, Deadline::After(SteadyClock::duration::max()));
}

TEST(Deadline, IsAMomentAndNotADuration) {
  const Deadline deadline(kNow + 1500us);
  EXPECT_FALSE(deadline.passed(kNow));
  EXPECT_EQ(deadline.left(kNow), 1500us);
  // Rounded up: a poll that ends by it must find that it has passed.
  EXPECT_EQ(deadline.poll_milliseconds(kNow), 2);
  EXPECT_TRUE(deadline.passed(kNow + 1500us));
  EXPECT_EQ(deadline.left(kNow + 1h), 0ns);
  EXPECT_EQ(deadline.poll_milliseconds(kNow + 1h), 0);
}

TEST(Deadline, ExtremesDoNotOverflow) {
  const Deadline first(SteadyClock::time_point::min());
  EXPECT_TRUE(first.passed());
  EXPECT_EQ(first.left(), 0ns);
  EXPECT_EQ(first.poll_milliseconds(), 0);
  EXPECT_TRUE(Deadline::After(-1h).passed());
  EXPECT_TRUE(Deadline::After(SteadyClock::duration::min()).passed());
  EXPECT_EQ(Deadline::After(24h * 365).poll_milliseconds(), std::numeric_limits<int>::max());
}

bool Rings(const Bell& bell, int milliseconds) {
  pollfd entry{.fd = bell.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, milliseconds) == 1;
}

TEST(Bell, ManyRingsAreHeardAsOne) {
  const auto bell = Bell::Create();
  ASSERT_TRUE(bell);
  EXPECT_FALSE(Rings(*bell, 0));
  bell->Silence();  // nobody has rung
  bell->Ring();
  bell->Ring();
  EXPECT_TRUE(Rings(*bell, 0));
  bell->Silence();
  EXPECT_FALSE(Rings(*bell, 0));
}

TEST(Bell, WakesAnotherThread) {
  const auto bell = Bell::Create();
  ASSERT_TRUE(bell);
  const std::jthread ringer([&] { bell->Ring(); });
  EXPECT_TRUE(Rings(*bell, -1));
}

TEST(BellDeathTest, ADescriptorThatSomebodyElseClosedIsNotPassedOver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto bell = Bell::Create();
        ::close(bell->fd());
        bell->Ring();
      },
      "a wake-up between threads is broken");
}

}  // namespace
}  // namespace pitcrew::base

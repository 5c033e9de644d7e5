#include "kube/concurrency.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace pitcrew::kube {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A server that works on one call for `alone` and answers at most `most` calls in a second: with
// more in flight, each waits longer.
struct Server {
  duration<double> alone{0.010};
  double most = 1000;

  [[nodiscard]] nanoseconds Latency(int in_flight) const {
    return duration_cast<nanoseconds>(std::max(alone, duration<double>(in_flight / most)));
  }
  [[nodiscard]] double Throughput(int in_flight) const {
    return in_flight / duration<double>(Latency(in_flight)).count();
  }
};

void Work(ConcurrencyLimit& limit, const Server& server, int answers) {
  for (int i = 0; i < answers; ++i) limit.Answered(server.Latency(limit.limit()), limit.limit());
}

TEST(ConcurrencyLimit, BeginsWithAFew) { EXPECT_EQ(ConcurrencyLimit().limit(), 8); }

// Eight calls at the beginning are too many for this server, and that is found out at once.
TEST(ConcurrencyLimit, FallsFromItsFirstWhereFewerBringAsMuch) {
  ConcurrencyLimit limit;
  Work(limit, {.alone = milliseconds(10), .most = 150}, 48 + 7 + 64 + 15 + 48 + 3 + 48 + 1);
  EXPECT_EQ(limit.limit(), 2);
}

TEST(ConcurrencyLimit, StaysAtItsFirstWhereFewerBringLess) {
  ConcurrencyLimit limit;
  const Server server{.alone = milliseconds(10), .most = 800};
  Work(limit, server, 48 + 7 + 64 + 15 + 48 + 3 + 1);
  EXPECT_EQ(limit.limit(), 8);
}

TEST(ConcurrencyLimit, GrowsToWhereTheServerIsBusyAndStaysThere) {
  ConcurrencyLimit limit;
  const Server server;  // busy with 10 calls
  Work(limit, server, 500);
  // It tries more now and then, and comes back.
  int higher = 0;
  int lower = 0;
  for (int i = 0; i < 20000; ++i) {
    Work(limit, server, 1);
    if (limit.limit() > 16) ++higher;
    if (limit.limit() < 16) ++lower;
  }
  EXPECT_GT(higher, 0);
  EXPECT_LT(higher, 20000 / 10);
  EXPECT_EQ(lower, 0);
}

TEST(ConcurrencyLimit, GrowsToItsMostWhereOnlyTheWayIsLong) {
  ConcurrencyLimit limit;
  Work(limit, {.alone = milliseconds(50), .most = 1e9}, 500);
  EXPECT_EQ(limit.limit(), 32);
}

TEST(ConcurrencyLimit, StaysLowWhereMoreCallsOnlyWait) {
  ConcurrencyLimit limit;
  const Server server{.alone = milliseconds(10), .most = 150};
  Work(limit, server, 5000);
  EXPECT_LE(limit.limit(), 4);
}

// etcd and kube-apiserver on two cores, measured: 141, 178, 208, 225 and 244 answers in a second
// with 2, 4, 8, 16 and 32 calls in flight (docs/performance.md).
TEST(ConcurrencyLimit, TakesWhatIsWorthwhile) {
  ConcurrencyLimit limit;
  const auto latency = [](int in_flight) {
    const double rate = in_flight <= 2    ? 141
                        : in_flight <= 4  ? 178
                        : in_flight <= 8  ? 208
                        : in_flight <= 16 ? 225
                                          : 244;
    return duration_cast<nanoseconds>(duration<double>(in_flight / rate));
  };
  for (int i = 0; i < 1000; ++i) limit.Answered(latency(limit.limit()), limit.limit());
  EXPECT_EQ(limit.limit(), 32);
}

TEST(ConcurrencyLimit, WorkThatDoesNotFillItSaysNothing) {
  ConcurrencyLimit limit;
  const Server server;
  Work(limit, server, 200);
  const int before = limit.limit();
  for (int i = 0; i < 10000; ++i) limit.Answered(milliseconds(500), before / 2);
  EXPECT_EQ(limit.limit(), before);
}

TEST(ConcurrencyLimit, ARefusalHalvesItAndARefusalOfAllInFlightIsOne) {
  ConcurrencyLimit limit;
  Work(limit, {.alone = milliseconds(50), .most = 1e9}, 500);
  ASSERT_EQ(limit.limit(), 32);
  for (int i = 0; i < 32; ++i) limit.Refused();
  EXPECT_EQ(limit.limit(), 16);
  limit.Refused();
  EXPECT_EQ(limit.limit(), 8);
  for (int i = 0; i < 1000; ++i) limit.Refused();
  EXPECT_EQ(limit.limit(), 2);
}

TEST(ConcurrencyLimit, AfterARefusalTheServerIsLeftInPeaceForAWhile) {
  ConcurrencyLimit limit;
  const Server server{.alone = milliseconds(50), .most = 1e9};
  Work(limit, server, 500);
  limit.Refused();
  ASSERT_EQ(limit.limit(), 16);
  Work(limit, server, 32 + 7 * 4 * 16);
  EXPECT_EQ(limit.limit(), 16);
  Work(limit, server, 2000);
  EXPECT_EQ(limit.limit(), 32);
}

// They have waited among another number of calls.
TEST(ConcurrencyLimit, CallsThatWereUnderWayBeforeAStepDoNotCount) {
  ConcurrencyLimit limit;
  const Server server{.alone = milliseconds(50), .most = 1e9};
  int under_way = 0;
  for (int i = 0; i < 1000; ++i) {
    const int before = limit.limit();
    limit.Answered(under_way > 0 ? std::chrono::seconds(10) : server.Latency(before), before);
    if (under_way > 0) --under_way;
    if (limit.limit() != before) under_way = before - 1;
  }
  EXPECT_EQ(limit.limit(), 32);
}

// Each step down may look harmless beside the one before, when together they are not.
TEST(ConcurrencyLimit, ManySmallLossesOnTheWayDownAreALargeOne) {
  ConcurrencyLimit limit;
  Work(limit, {.alone = milliseconds(10), .most = 10000}, 500);
  ASSERT_EQ(limit.limit(), 32);
  const auto latency = [](int in_flight) {
    const double rate = in_flight <= 2    ? 40
                        : in_flight <= 4  ? 54
                        : in_flight <= 8  ? 56
                        : in_flight <= 16 ? 58
                                          : 60;
    return duration_cast<nanoseconds>(duration<double>(in_flight / rate));
  };
  for (int i = 0; i < 5000; ++i) limit.Answered(latency(limit.limit()), limit.limit());
  // It tries more now and then, and comes back.
  int settled = 0;
  for (int i = 0; i < 5000; ++i) {
    limit.Answered(latency(limit.limit()), limit.limit());
    if (limit.limit() == 16) ++settled;
  }
  EXPECT_GT(settled, 5000 * 8 / 10);
}

TEST(ConcurrencyLimit, FallsWhenTheServerHasLessTimeForUs) {
  ConcurrencyLimit limit;
  Work(limit, {.alone = milliseconds(10), .most = 10000}, 500);
  ASSERT_EQ(limit.limit(), 32);
  const Server busy{.alone = milliseconds(10), .most = 300};
  Work(limit, busy, 2000);
  EXPECT_LE(limit.limit(), 8);
  EXPECT_GE(busy.Throughput(limit.limit()), 0.9 * 300);
}

TEST(CallPace, LetsNoMoreCallsThroughThanItsLimit) {
  CallPace pace(ConcurrencyLimit({.first = 2}));
  std::mutex mutex;
  int now = 0;
  int most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 100; ++call) {
        const auto turn = pace.Begin();
        {
          const std::scoped_lock lock(mutex);
          most = std::max(most, ++now);
        }
        std::this_thread::yield();
        const std::scoped_lock lock(mutex);
        --now;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(most, 2);
}

TEST(CallPace, WakesThoseWhoWaitWhenThereIsRoomForMore) {
  CallPace pace(ConcurrencyLimit({.first = 2}));
  auto first = pace.Begin();
  auto second = pace.Begin();
  std::vector<std::thread> waiting;
  std::vector<CallPace::Turn> turns;
  std::mutex mutex;
  for (int i = 0; i < 2; ++i) {
    waiting.emplace_back([&] {
      auto turn = pace.Begin();
      const std::scoped_lock lock(mutex);
      turns.push_back(std::move(turn));
    });
  }
  for (int i = 0; pace.limit() == 2 && i < 1000; ++i) first.Answered(milliseconds(10));
  EXPECT_EQ(pace.limit(), 4);
  for (auto& thread : waiting) thread.join();
  EXPECT_EQ(turns.size(), 2U);
}

}  // namespace
}  // namespace pitcrew::kube

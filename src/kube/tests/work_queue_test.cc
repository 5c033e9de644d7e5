#include "kube/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/support/eventually.h"

namespace pitcrew::kube {
namespace {

using std::chrono::milliseconds;
using Time = QueueState::TimePoint;

ObjectKey Key(const std::string& name) { return {.namespace_name = {}, .name = name}; }

class QueueTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, Priority priority = Priority::kNormal, int after = 0) {
    queue_.Add(Key(name), priority, now_ + milliseconds(after), now_);
  }
  std::string Take() {
    const auto key = queue_.Take(now_);
    return key ? key->name : "";
  }
  void Done(const std::string& name) { queue_.Done(Key(name), now_); }

  QueueState queue_{BackoffPolicy{}};
  Time now_{};
};

TEST_F(QueueTest, EachKeyOnceInOrderOfArrival) {
  Add("a");
  Add("b");
  Add("a");
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(Take(), "b");
  EXPECT_EQ(Take(), "");
}

TEST_F(QueueTest, AKeyInWorkIsNotGivenOutTwice) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  Add("a");
  EXPECT_EQ(Take(), "");
  Done("a");
  EXPECT_EQ(Take(), "a");
  Done("a");
  EXPECT_EQ(Take(), "");
}

TEST_F(QueueTest, NewsOvertakeTheFirstList) {
  Add("old-1", Priority::kLow);
  Add("old-2", Priority::kLow);
  Add("news");
  Add("old-2");  // news too, now
  EXPECT_EQ(Take(), "old-2");
  EXPECT_EQ(Take(), "news");
  EXPECT_EQ(Take(), "old-1");
}

TEST_F(QueueTest, DelayedKeysWaitForTheirTime) {
  Add("later", Priority::kNormal, 50);
  Add("latest", Priority::kNormal, 90);
  EXPECT_EQ(Take(), "");
  EXPECT_EQ(queue_.NextReady(), now_ + milliseconds(50));
  now_ += milliseconds(60);
  EXPECT_EQ(Take(), "later");
  EXPECT_EQ(Take(), "");
  now_ += milliseconds(60);
  EXPECT_EQ(Take(), "latest");
  EXPECT_EQ(queue_.NextReady(), std::nullopt);
}

TEST_F(QueueTest, TheEarlierTimeWins) {
  Add("a", Priority::kNormal, 50);
  Add("a", Priority::kNormal, 500);
  EXPECT_EQ(queue_.NextReady(), now_ + milliseconds(50));
  Add("a");
  EXPECT_EQ(Take(), "a");
  Done("a");
  now_ += milliseconds(1000);
  EXPECT_EQ(Take(), "");
}

TEST_F(QueueTest, ADelayGivenDuringWorkCountsAfterIt) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  Add("a", Priority::kNormal, 50);
  Done("a");
  EXPECT_EQ(Take(), "");
  now_ += milliseconds(50);
  EXPECT_EQ(Take(), "a");
}

TEST_F(QueueTest, FailuresBackOffPerKey) {
  queue_.AddRateLimited(Key("a"), now_);
  EXPECT_EQ(queue_.NextReady(), now_ + milliseconds(100));
  now_ += milliseconds(100);
  EXPECT_EQ(Take(), "a");
  queue_.AddRateLimited(Key("a"), now_);
  queue_.AddRateLimited(Key("b"), now_);
  Done("a");
  EXPECT_EQ(queue_.NextReady(), now_ + milliseconds(100));  // b's first failure
  EXPECT_EQ(queue_.failures(Key("a")), 2);
  queue_.Forget(Key("a"));
  EXPECT_EQ(queue_.failures(Key("a")), 0);
}

// However keys come and go, no key is with two workers and none is forgotten.
TEST_F(QueueTest, NoOrderOfCallsLosesOrDoublesAKey) {
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): repeatable
  std::set<std::string> in_work;
  std::set<std::string> owed;
  for (int i = 0; i < 20000; ++i) {
    const std::string name(1, static_cast<char>('a' + random() % 8));
    switch (random() % 4) {
      case 0:
        Add(name, random() % 2 == 0 ? Priority::kLow : Priority::kNormal,
            static_cast<int>(random() % 20));
        owed.insert(name);
        break;
      case 1:
        if (const auto taken = Take(); !taken.empty()) {
          ASSERT_TRUE(in_work.insert(taken).second);
          owed.erase(taken);
        }
        break;
      case 2:
        if (!in_work.empty()) {
          const std::string done = *in_work.begin();
          in_work.erase(done);
          Done(done);
        }
        break;
      default:
        now_ += milliseconds(random() % 5);
        break;
    }
  }
  for (const auto& name : in_work) Done(name);
  now_ += milliseconds(1000);
  for (auto taken = Take(); !taken.empty(); taken = Take()) owed.erase(taken);
  EXPECT_TRUE(owed.empty());
}

TEST(WorkQueue, WorkersShareKeysAndEndAtShutDown) {
  WorkQueue queue;
  std::atomic<int> worked{0};
  std::vector<std::thread> workers;
  for (int w = 0; w < 4; ++w) {
    workers.emplace_back([&] {
      while (const auto key = queue.Take()) {
        queue.Done(*key);
        if (++worked == 200) queue.ShutDown();
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    queue.Add(Key("now-" + std::to_string(i)));
    queue.AddAfter(Key("soon-" + std::to_string(i)), milliseconds(1));
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(worked, 200);
  queue.Add(Key("too late"));
  EXPECT_EQ(queue.size(), 0U);
}

TEST(WorkQueue, HelpersComeWhereNobodyIsFreeAndNeverMoreThanMay) {
  WorkQueue queue;
  int calls = 0;
  queue.CallHelpers(1, [&] { ++calls; });
  EXPECT_EQ(queue.TakeAsHelper(), std::nullopt) << "nothing is to be done";
  queue.Add(Key("a"));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(queue.TakeAsHelper(), Key("a"));
  queue.Add(Key("b"));
  EXPECT_EQ(calls, 1) << "there may be no more";
  EXPECT_EQ(queue.TakeAsHelper(), std::nullopt);
  queue.Done(Key("a"));
  EXPECT_EQ(queue.TakeOrLeave(), Key("b"));
  queue.Done(Key("b"));
  EXPECT_EQ(queue.TakeOrLeave(), std::nullopt);
  EXPECT_TRUE(queue.NextForHelper().never());
  queue.Add(Key("c"));
  EXPECT_EQ(calls, 2);
  queue.ShutDown();
  EXPECT_EQ(queue.TakeAsHelper(), std::nullopt);
}

TEST(WorkQueue, AHelperIsWantedWhenTheTimeOfAKeyComesAndNobodyIsFree) {
  WorkQueue queue;
  int calls = 0;
  queue.CallHelpers(1, [&] { ++calls; });
  queue.AddAfter(Key("later"), std::chrono::hours(1));
  EXPECT_EQ(calls, 1) << "somebody has to watch the time";
  EXPECT_EQ(queue.TakeAsHelper(), std::nullopt);
  EXPECT_FALSE(queue.NextForHelper().never());
  queue.Add(Key("now"));
  EXPECT_EQ(queue.TakeAsHelper(), Key("now"));
  EXPECT_TRUE(queue.NextForHelper().never()) << "there may be no more";
  queue.Done(Key("now"));
  calls = 0;
  EXPECT_EQ(queue.TakeOrLeave(), std::nullopt);
  EXPECT_EQ(calls, 1) << "nobody watches the time any more";
  EXPECT_FALSE(queue.NextForHelper().never());
}

TEST(WorkQueue, WhoWaitsForAKeyNeedsNoHelper) {
  WorkQueue queue;
  std::atomic<int> calls = 0;
  queue.CallHelpers(1, [&] { ++calls; });
  std::thread worker([&] {
    while (const auto key = queue.Take()) {
      queue.Done(*key);
      if (key->name == "last") return;
    }
  });
  queue.AddAfter(Key("later"), std::chrono::hours(1));
  // Only a worker that waits takes the watch over the time from the helpers.
  EXPECT_TRUE(test_support::Eventually([&] { return queue.NextForHelper().never(); }));
  const int before = calls;
  queue.Add(Key("last"));
  worker.join();
  EXPECT_EQ(calls, before + 1) << "for the watch, when the worker began; not for the key";
}

}  // namespace
}  // namespace pitcrew::kube

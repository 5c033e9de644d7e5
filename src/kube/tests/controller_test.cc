#include "kube/controller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

#include "tests/support/patience.h"

namespace pitcrew::kube {
namespace {

// All calls of the controller last until the end of the test.
class SlowCalls : public ::testing::Test {
 protected:
  ~SlowCalls() override {
    end_.count_down();
    stop_.Stop();
    runner_.join();
    EXPECT_EQ(controller_.statistics().active, 0);
  }
  [[nodiscard]] bool OneMoreBegins() { return begun_.try_acquire_for(test_support::kPatience); }

  std::counting_semaphore<> begun_{0};
  std::latch end_{1};
  Controller controller_{{.name = "slow", .workers = 4},
                         [this](const ObjectKey&, const io::StopToken&) -> base::Result<Action> {
                           begun_.release();
                           end_.wait();
                           return Action::Done();
                         }};
  const io::StopSource stop_;
  std::thread runner_{[this] { EXPECT_TRUE(controller_.Run(stop_.token())); }};
};

// Seen in the code: only workers that began with a key called for others, so that a key which came
// after that waited for the end of a call.
TEST_F(SlowCalls, KeysThatComeOneByOneHaveAllWorkers) {
  for (const char* name : {"1", "2", "3", "4"}) {
    controller_.Enqueue({.name = name});
    ASSERT_TRUE(OneMoreBegins()) << name;
  }
}

TEST_F(SlowCalls, AKeyWhoseTimeComesHasAWorker) {
  for (const char* name : {"1", "2"}) {
    controller_.Enqueue({.name = name});
    ASSERT_TRUE(OneMoreBegins()) << name;
  }
  for (const char* name : {"3", "4"}) {
    controller_.EnqueueAfter({.name = name}, std::chrono::milliseconds(10));
    ASSERT_TRUE(OneMoreBegins()) << name;
  }
}

TEST(Controller, ARushGetsAsManyWorkersAsThereMayBe) {
  constexpr int kWorkers = 8;
  std::latch all(kWorkers);  // opens when so many keys are worked on at once
  std::latch done(kWorkers);
  Controller controller({.name = "rush", .workers = kWorkers},
                        [&](const ObjectKey&, const io::StopToken&) -> base::Result<Action> {
                          all.arrive_and_wait();
                          done.count_down();
                          return Action::Done();
                        });
  for (int i = 0; i < kWorkers; ++i) controller.Enqueue({.name = std::to_string(i)});
  const io::StopSource stop;
  std::thread runner([&] { EXPECT_TRUE(controller.Run(stop.token())); });
  done.wait();
  stop.Stop();
  runner.join();
  EXPECT_EQ(controller.statistics().active, 0);
  EXPECT_EQ(controller.counts().succeeded, static_cast<std::uint64_t>(kWorkers));
}

TEST(Controller, ThereAreNeverMoreWorkersThanAllowed) {
  constexpr int kKeys = 200;
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::latch done(kKeys);
  Controller controller({.name = "few", .workers = 3},
                        [&](const ObjectKey&, const io::StopToken&) -> base::Result<Action> {
                          const int active = ++now;
                          int seen = most;
                          while (seen < active && !most.compare_exchange_weak(seen, active)) {
                          }
                          std::this_thread::yield();
                          --now;
                          done.count_down();
                          return Action::Done();
                        });
  const io::StopSource stop;
  std::thread runner([&] { EXPECT_TRUE(controller.Run(stop.token())); });
  for (int i = 0; i < kKeys; ++i) controller.Enqueue({.name = std::to_string(i)});
  done.wait();
  stop.Stop();
  runner.join();
  EXPECT_LE(most, 3);
}

}  // namespace
}  // namespace pitcrew::kube

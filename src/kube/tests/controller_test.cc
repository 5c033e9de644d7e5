#include "kube/controller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

namespace pitcrew::kube {
namespace {

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

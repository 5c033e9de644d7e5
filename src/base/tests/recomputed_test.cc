#include "base/recomputed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

namespace pitcrew::base {
namespace {

TEST(Recomputed, BeginsEmpty) { EXPECT_EQ(*Recomputed<int>().Get(), 0); }

// A thread has read, and is held up; another one changes what it has read, and recomputes.
TEST(Recomputed, WhoReadEarlierReplacesNothingLater) {
  Recomputed<int> value;
  std::atomic<int> source = 1;
  std::latch has_read(1);
  std::latch may_go_on(1);
  std::jthread slow([&] {
    value.Recompute([&] {
      const int read = source;
      has_read.count_down();
      may_go_on.wait();
      return read;
    });
  });
  has_read.wait();
  std::jthread quick([&] {
    source = 2;
    value.Recompute([&] { return source.load(); });
  });
  // Where it is not kept waiting, it is done before the slow one.
  while (source != 2) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  may_go_on.count_down();
  slow.join();
  quick.join();
  EXPECT_EQ(*value.Get(), 2);
}

}  // namespace
}  // namespace pitcrew::base

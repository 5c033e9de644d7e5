#include "node/mps_folder/mps_folder.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "node/mps_folder/service_watch.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::mps_folder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpu = "nvidia.com/gpu";

TEST(MpsFolder, HasUpstreamsNames) {
  RecordProperty("holds", "device-plugin.md section 17.1");
  const MpsFolder folder;
  EXPECT_EQ(folder.PipeFolder("nvidia.com/gpu.shared"), "/mps/nvidia.com/gpu.shared/pipe");
  EXPECT_EQ(folder.LogFolder(kGpu), "/mps/nvidia.com/gpu/log");
  EXPECT_EQ(folder.StartedFile(kGpu), "/mps/nvidia.com/gpu/.started");
  EXPECT_EQ(folder.ReadyFile(), "/mps/.ready");
  EXPECT_EQ(folder.ShmFolder(), "/mps/shm");
}

class Mps : public ::testing::Test {
 protected:
  Mps() : folder_(temporary_.path() / "mps") {}
  void Start(const std::string& resource) {
    ASSERT_TRUE(base::WriteFileAtomically(folder_.StartedFile(resource), ""));
  }
  // Waits for one or more events and takes them.
  static bool Next(ServiceWatch& watch) {
    pollfd entry{watch.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 20'000), 1) << "no event";
    return watch.Take();
  }
  static bool NextChange(ServiceWatch& watch) {
    for (int i = 0; i < 100; ++i) {
      if (Next(watch)) return true;
    }
    return false;
  }

  test_support::TemporaryFolder temporary_;
  const MpsFolder folder_;
};

TEST_F(Mps, OnlyOneDaemonLives) {
  auto first = LifeSign::Give(folder_);
  ASSERT_TRUE(first) << first.error().ToString();
  Start(kGpu);
  const auto second = LifeSign::Give(folder_);
  EXPECT_EQ(second.error().reason, "AlreadyRunning");
  EXPECT_TRUE(fs::exists(folder_.StartedFile(kGpu))) << "the second one has touched nothing";
}

TEST_F(Mps, WhatAKilledDaemonLeftIsRemoved) {
  Start(kGpu);
  fs::create_directories(folder_.PipeFolder(kGpu));
  ASSERT_TRUE(base::WriteFileAtomically(folder_.ReadyFile(), ""));
  ASSERT_TRUE(base::WriteFileAtomically(folder_.ShmFolder() / "segment", ""));
  ASSERT_TRUE(base::WriteFileAtomically(folder_.path() / "file", ""));
  // Behind the file and the tmpfs in the order of their names.
  constexpr const char* kLast = "zone.example/gpu";
  ASSERT_TRUE(base::WriteFileAtomically(folder_.StartedFile(kLast), ""));
  const auto sign = LifeSign::Give(folder_);
  ASSERT_TRUE(sign) << sign.error().ToString();
  EXPECT_FALSE(fs::exists(folder_.StartedFile(kGpu)));
  EXPECT_FALSE(fs::exists(folder_.StartedFile(kLast)));
  EXPECT_FALSE(fs::exists(folder_.ReadyFile()));
  EXPECT_TRUE(fs::exists(folder_.PipeFolder(kGpu)));
  EXPECT_TRUE(fs::exists(folder_.ShmFolder() / "segment"));
}

TEST_F(Mps, AResourceIsServedWhileItsFileIsThere) {
  auto watch = ServiceWatch::Create(folder_);
  ASSERT_TRUE(watch) << watch.error().ToString();
  fs::create_directories(folder_.path());
  watch->Follow({kGpu});
  EXPECT_FALSE(watch->Serves(kGpu));
  const auto sign = LifeSign::Give(folder_);
  // The folders of the resource come one after the other.
  fs::create_directory(folder_.path() / "nvidia.com");
  EXPECT_FALSE(Next(*watch));
  Start(kGpu);
  ASSERT_TRUE(NextChange(*watch));
  EXPECT_TRUE(watch->Serves(kGpu));
  EXPECT_FALSE(watch->Serves("nvidia.com/other"));
  fs::remove(folder_.StartedFile(kGpu));
  ASSERT_TRUE(NextChange(*watch));
  EXPECT_FALSE(watch->Serves(kGpu));
}

TEST_F(Mps, ADaemonThatIsKilledServesNothing) {
  fs::create_directories(folder_.path());
  auto watch = ServiceWatch::Create(folder_);
  ASSERT_TRUE(watch);
  watch->Follow({kGpu});
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    const auto sign = LifeSign::Give(folder_);
    Start(kGpu);
    (void)!::write(ready[1], "1", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_TRUE(NextChange(*watch));
  ASSERT_TRUE(watch->Serves(kGpu));
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  ASSERT_TRUE(NextChange(*watch));
  EXPECT_FALSE(watch->Serves(kGpu));
  ASSERT_TRUE(fs::exists(folder_.StartedFile(kGpu))) << "its file alone says nothing";
  // Nor to one that looks later.
  auto later = ServiceWatch::Create(folder_);
  later->Follow({kGpu});
  EXPECT_FALSE(later->Serves(kGpu));

  // The next one brings it back.
  const auto sign = LifeSign::Give(folder_);
  ASSERT_TRUE(sign) << sign.error().ToString();
  Start(kGpu);
  ASSERT_TRUE(NextChange(*watch));
  EXPECT_TRUE(watch->Serves(kGpu));
  ::close(ready[0]);
  ::close(ready[1]);
}

// Upstream's gives no sign of life.
TEST_F(Mps, ADaemonWithoutASignOfLifeIsTakenToLive) {
  Start(kGpu);
  auto watch = ServiceWatch::Create(folder_);
  ASSERT_TRUE(watch);
  watch->Follow({kGpu});
  EXPECT_TRUE(watch->Serves(kGpu));
}

TEST_F(Mps, AfterItsEndADaemonServesNothing) {
  {
    const auto sign = LifeSign::Give(folder_);
    Start(kGpu);
  }
  auto watch = ServiceWatch::Create(folder_);
  ASSERT_TRUE(watch);
  watch->Follow({kGpu});
  EXPECT_FALSE(watch->Serves(kGpu));
}

}  // namespace
}  // namespace pitcrew::node::mps_folder

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "io/file_watcher.h"
#include "io/http_client.h"
#include "io/http_server.h"
#include "io/stop.h"
#include "tests/support/patience.h"

namespace pitcrew::io {
namespace {

using namespace std::chrono_literals;

std::filesystem::path FreshFolder(const std::string& name) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("pitcrew-io-" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(Stop, ATokenStopsItsWaiters) {
  StopSource source;
  std::thread waiter([token = source.token()] { token.Wait(); });
  source.Stop();
  waiter.join();
  EXPECT_TRUE(source.token().WaitFor(0ns));
  EXPECT_FALSE(StopToken().WaitFor(1ms));
}

TEST(Stop, ASignalStopsTheSource) {
  StopSource source;
  ASSERT_TRUE(source.StopOnSignals({SIGUSR1}));
  ::raise(SIGUSR1);
  EXPECT_TRUE(source.token().stopped());
  EXPECT_TRUE(source.token().WaitFor(1h));
}

// What a timer, a debugger or a child's end does to every wait of a program.
TEST(Stop, ASignalThatIsNoStopEndsNoWait) {
  static std::atomic<int> signals{0};
  struct sigaction count{};
  struct sigaction before{};
  count.sa_handler = [](int) { ++signals; };
  ASSERT_EQ(::sigaction(SIGALRM, &count, &before), 0);
  const itimerval often{.it_interval = {0, 1000}, .it_value = {0, 1000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  const auto waited = WaitReadable({}, {}, base::Deadline::After(50ms));
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, base::Code::kTimeout) << waited.error().message;
  EXPECT_GT(signals, 0);
}

TEST(Stop, ALinkedSourceStopsWithEachOfItsAncestorsAndNeverStopsThem) {
  const StopSource grandparent;
  auto parent = std::make_unique<StopSource>(StopSource::LinkedTo(grandparent.token()));
  const StopSource child = StopSource::LinkedTo(parent->token());
  const StopSource sibling = StopSource::LinkedTo(parent->token());
  const StopSource orphan = StopSource::LinkedTo({});
  parent.reset();
  sibling.Stop();
  EXPECT_TRUE(sibling.token().stopped());
  EXPECT_FALSE(child.token().WaitFor(0ns));
  std::thread waiter([token = child.token()] { token.Wait(); });
  grandparent.Stop();
  waiter.join();
  EXPECT_TRUE(child.token().stopped());
  EXPECT_EQ(child.token().error().reason, "Stopped");
  EXPECT_FALSE(orphan.token().WaitFor(0ns));
  orphan.Stop();
  EXPECT_TRUE(orphan.token().WaitFor(1h));
}

TEST(Stop, ALongChainOfLinksIsNoDeeperThanOne) {
  const StopSource first;
  StopSource last = StopSource::LinkedTo(first.token());
  for (int i = 0; i < 20; ++i) last = StopSource::LinkedTo(last.token());
  EXPECT_FALSE(last.token().stopped());
  first.Stop();
  EXPECT_TRUE(last.token().WaitFor(1h));
}

// The process as it is when no file descriptor is left.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next);
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(Stop, WithoutADescriptorEveryWaitEndsWithThatError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "the sanitizer's check of virtual calls opens a pipe itself, and reports without one";
#endif
  const StopSource parent;
  StopSource source;
  std::optional<StopSource> broken;
  std::optional<StopSource> linked;
  {
    const NoDescriptors none;
    broken.emplace();
    linked = StopSource::LinkedTo(parent.token());
  }
  for (StopSource* each : {&*broken, &*linked}) {
    const auto token = each->token();
    EXPECT_TRUE(token.WaitFor(1h));
    token.Wait();
    const auto waited = WaitReadable({}, token);
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().reason, "TooManyOpenFiles");
    // Those who poll by themselves are woken too.
    pollfd entry{.fd = token.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&entry, 1, -1), 1);
    each->Stop();
    EXPECT_EQ(StopSource::LinkedTo(token).token().error().reason, "TooManyOpenFiles");
  }
  EXPECT_EQ(broken->StopOnSignals({SIGUSR2}).error().reason, "TooManyOpenFiles");
  EXPECT_FALSE(parent.token().stopped());
}

TEST(HttpClient, WithoutADescriptorIsAnError) {
  const NoDescriptors none;
  const auto client = HttpClient::Create();
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().reason, "TooManyOpenFiles");
}

// Many times: folders that are made between a look and the watch are met by chance only.
TEST(FileWatcher, WaitsForAFileInAFolderThatDoesNotExistYet) {
  for (int round = 0; round < 100; ++round) {
    const auto folder = FreshFolder("deep");
    const auto file = folder / "a" / "b" / "ready";
    std::thread writer([&] { ASSERT_TRUE(base::WriteFileAtomically(file, "yes")); });
    const auto waited = WaitForFiles(
        {file.parent_path()}, [&]() -> base::Result<bool> { return std::filesystem::exists(file); },
        {}, base::Deadline::After(test_support::kPatience));
    writer.join();
    ASSERT_TRUE(waited) << round;
  }
}

// A folder that may be passed through, but not read, cannot be watched: that will not change.
TEST(FileWatcher, AFolderThatMayNotBeReadEndsTheWait) {
  const auto folder = FreshFolder("closed");
  std::filesystem::permissions(folder, std::filesystem::perms::group_exec |
                                           std::filesystem::perms::others_exec |
                                           std::filesystem::perms::owner_exec);
  base::Status waited;
  // Of this thread alone; root would be let in.
  std::thread([&] {
    ::setfsuid(65534);
    waited = WaitForFiles(
        {folder / "deep"}, []() -> base::Result<bool> { return false; }, {},
        base::Deadline::After(test_support::kPatience));
  }).join();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, base::Code::kDenied) << waited.error().message;
}

TEST(FileWatcher, TellsAppearanceAndRemoval) {
  const auto folder = FreshFolder("changes");
  auto watcher = FileWatcher::Create();
  ASSERT_TRUE(watcher);
  ASSERT_TRUE(watcher->Watch(folder));
  std::ofstream(folder / "x") << "1";
  std::filesystem::remove(folder / "x");
  const auto changes = watcher->Take();
  ASSERT_TRUE(changes);
  ASSERT_GE(changes->size(), 2U);
  EXPECT_EQ(changes->front().kind, FileChange::Kind::kAppeared);
  EXPECT_EQ(changes->back().kind, FileChange::Kind::kRemoved);
  EXPECT_EQ(changes->back().path(), folder / "x");
  EXPECT_EQ(watcher->Watch(folder / "none").error().code, base::Code::kNotFound);
}

TEST(FileWatcher, AStoppedWaitSaysSo) {
  StopSource source;
  source.Stop();
  const auto waited = WaitForFiles(
      {FreshFolder("stop")}, []() -> base::Result<bool> { return false; }, source.token());
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, base::Code::kCancelled);
}

TEST(HttpServer, RefusesAnAddressWithoutAPort) {
  const auto server = HttpServer::Start("localhost", {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, base::Code::kInvalid);
}

TEST(HttpServer, TellsThatAPortIsTaken) {
  const auto first = HttpServer::Start("127.0.0.1:0", {});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = HttpServer::Start("127.0.0.1:" + std::to_string((*first)->port()), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::Code::kUnavailable);
}

// 192.0.2.0/24 is for documentation: no machine has it.
TEST(HttpServer, AnAddressOfAnotherMachineIsRefused) {
  const auto server = HttpServer::Start("192.0.2.1:0", {});
  ASSERT_FALSE(server) << "another address is not what was asked for";
  EXPECT_EQ(server.error().code, base::Code::kUnavailable);
}

}  // namespace
}  // namespace pitcrew::io

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "io/file_watcher.h"
#include "io/http_server.h"
#include "io/stop.h"

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

TEST(FileWatcher, WaitsForAFileInAFolderThatDoesNotExistYet) {
  const auto folder = FreshFolder("deep");
  const auto file = folder / "a" / "b" / "ready";
  std::thread writer([&] { ASSERT_TRUE(base::WriteFileAtomically(file, "yes")); });
  const auto waited = WaitForFiles(
      {file.parent_path()}, [&]() -> base::Result<bool> { return std::filesystem::exists(file); },
      {}, std::chrono::steady_clock::now() + 30s);
  writer.join();
  EXPECT_TRUE(waited);
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

}  // namespace
}  // namespace pitcrew::io

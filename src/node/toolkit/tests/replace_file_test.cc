// One file in the place of another, with somebody else at work on it.
#include "node/toolkit/replace_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/kill_at_change.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using Text = std::optional<std::string>;

class ReplaceFileTest : public ::testing::Test {
 protected:
  ReplaceFileTest() : path_(folder_.path() / "conf.d/file") {
    fs::create_directories(path_.parent_path());
  }
  void Reset(const Text& text) const {
    fs::remove_all(path_.parent_path());
    fs::create_directories(path_.parent_path());
    if (text) folder_.Write("conf.d/file", *text);
  }
  [[nodiscard]] Text Now() const {
    const auto text = base::ReadFile(path_);
    return text ? Text(*text) : std::nullopt;
  }
  [[nodiscard]] std::size_t Names() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_.parent_path()), fs::directory_iterator()));
  }
  [[nodiscard]] static FileState State(Text text) {
    return {std::move(text), 0640, ::geteuid(), ::getegid()};
  }

  test_support::TemporaryFolder folder_;
  fs::path path_;
};

TEST_F(ReplaceFileTest, OnlyWhatWasExpectedIsReplaced) {
  for (const Text& now : {Text(), Text("a"), Text("")}) {
    for (const Text& expected : {Text(), Text("a"), Text("")}) {
      for (const Text& wanted : {Text(), Text("b")}) {
        Reset(now);
        const auto done = ReplaceFile(path_, State(wanted), expected);
        EXPECT_EQ(done.has_value(), now == expected);
        EXPECT_EQ(Now(), now == expected ? wanted : now);
        if (!done) {
          EXPECT_EQ(done.error().code, base::Code::kConflict);
        }
        EXPECT_EQ(Names(), Now() ? 1U : 0U) << "nothing is left beside it";
      }
    }
  }
}

// At whatever step they come, what they wrote is there afterwards; and never a part of ours.
TEST_F(ReplaceFileTest, AnotherWriterIsNeverLost) {
  for (const Text& expected : {Text(), Text("old")}) {
    for (const Text& wanted : {Text(), Text("ours")}) {
      int steps = 1;
      for (bool stopped = true; stopped; ++steps) {
        Reset(expected);
        stopped = test_support::InterruptAtChange(
            steps, [&] { (void)ReplaceFile(path_, State(wanted), expected); },
            [&] { fs::rename(folder_.Write("theirs", "theirs"), path_); });
        if (!stopped) break;
        EXPECT_EQ(Now(), "theirs") << "step " << steps;
        EXPECT_EQ(Names(), 1U) << "step " << steps;
      }
      EXPECT_GT(steps, expected || wanted ? 2 : 1);
    }
  }
}

// Killed after that, it may have taken their file out of its place: the next one puts it back.
TEST_F(ReplaceFileTest, AnotherWriterIsNotLostByAKillEither) {
  int killed = 0;
  for (const Text& expected : {Text(), Text("old")}) {
    for (const Text& wanted : {Text(), Text("ours")}) {
      for (int step = 1; step <= 12; ++step) {
        for (int later = 1; later <= 6; ++later) {
          Reset(expected);
          if (!test_support::KillAfterInterrupt(
                  step, later, [&] { (void)ReplaceFile(path_, State(wanted), expected); },
                  [&] { fs::rename(folder_.Write("theirs", "theirs"), path_); })) {
            break;
          }
          ++killed;
          (void)ReplaceFile(path_, State(wanted), expected);
          EXPECT_EQ(Now(), "theirs") << "step " << step << ", killed " << later << " later";
          EXPECT_EQ(Names(), 1U) << "step " << step << ", killed " << later << " later";
        }
      }
    }
  }
  EXPECT_GT(killed, 10);
}

TEST_F(ReplaceFileTest, ALeftoverThatNobodyKnowsIsKeptOrPutBack) {
  const KnownContents known = {[](const Text& text) { return text == "ours" || text == "old"; },
                               [](const Text& text) { return text == "ours"; }};
  const auto kept = path_.parent_path() / ".file.kept";
  for (const Text& now : {Text(), Text("ours")}) {
    Reset(now);
    folder_.Write("conf.d/.file.new", "theirs");
    Tidy(path_, known);
    EXPECT_EQ(Now(), "theirs");
    EXPECT_EQ(Names(), 1U);
  }
  for (const auto* text : {"ours", "old"}) {
    Reset("other");
    folder_.Write("conf.d/.file.new", text);
    Tidy(path_, known);
    EXPECT_EQ(Now(), "other");
    EXPECT_EQ(Names(), 1U);
  }
  // Something else stands in its place: neither goes.
  Reset("other");
  for (const auto* text : {"theirs", "theirs, later"}) {
    folder_.Write("conf.d/.file.new", text);
    Tidy(path_, known);
    EXPECT_EQ(Now(), "other");
  }
  EXPECT_EQ(base::ReadFile(kept).value_or(""), "theirs");
  EXPECT_EQ(base::ReadFile(kept.string() + ".1").value_or(""), "theirs, later");
  EXPECT_EQ(Names(), 3U);
}

// A reader of all files of the folder (CRI-O) finds whole ones only, at whatever step it looks.
TEST_F(ReplaceFileTest, NoPartOfAFileHasAName) {
  const std::string old(100'000, 'o');
  const std::string ours(200'000, 'n');
  int steps = 1;
  for (bool stopped = true; stopped; ++steps) {
    Reset(old);
    stopped = test_support::InterruptAtChange(
        steps, [&] { (void)ReplaceFile(path_, State(ours), old); },
        [&] {
          for (const auto& entry : fs::directory_iterator(path_.parent_path())) {
            const auto text = base::ReadFile(entry.path()).value_or("?");
            EXPECT_TRUE(text == old || text == ours) << "step " << steps << ": " << entry.path();
          }
        });
  }
  EXPECT_EQ(Now(), ours);
  EXPECT_GT(steps, 4);
}

TEST_F(ReplaceFileTest, ModesComeWithTheContentAndALeftoverGoes) {
  Reset("a");
  folder_.Write("conf.d/.file.new", "b");
  folder_.Write("conf.d/.file.part", "of a killed one");
  ASSERT_TRUE(ReplaceFile(path_, {"b", 0600, ::geteuid(), ::getegid()}, "a"));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_EQ(Names(), 1U);
}

TEST_F(ReplaceFileTest, AFolderInItsPlaceIsAnError) {
  Reset({});
  fs::create_directories(path_);
  EXPECT_FALSE(ReplaceFile(path_, State("b"), std::nullopt));
  EXPECT_FALSE(ReadFileState(path_));
  EXPECT_TRUE(fs::is_directory(path_));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

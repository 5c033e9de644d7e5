// Engine files on a disk that is full, or that cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "base/file.h"
#include "node/toolkit/configure_engine.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kPage = 4096;
constexpr int kPages = 24;

// A small file system with the engine's files; the journal stands on another one.
class EngineDisk : public ::testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    fs::create_directories(Etc());
    fs::create_directories(folder_.path() / "state");
    const auto size = "size=" + std::to_string(kPage * kPages);
    mounted_ = ::mount("tmpfs", Etc().c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted_) GTEST_SKIP() << "a file system cannot be mounted here";
    options_.kind = GetParam();
    options_.restart = RestartMode::kNone;
    options_.config_sources = {"file"};
    options_.host_root = "/";
    const std::string padding(kPage, 'x');
    switch (GetParam()) {
      case EngineKind::kContainerd:
        Name("config.toml", "conf.d/99-nvidia.toml");
        Write("config.toml",
              "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nx = \"" + padding + "\"\n");
        Write("conf.d/99-nvidia.toml", "version = 2\n# " + padding + "\n");
        break;
      case EngineKind::kCrio:
        Name("crio.conf", "crio.conf.d/99-nvidia.conf");
        Write("crio.conf.d/99-nvidia.conf", "# " + padding + "\n");
        break;
      case EngineKind::kDocker:
        Name("daemon.json", "");
        Write("daemon.json", "{\"x\": \"" + padding + "\"}");
        break;
    }
  }
  void TearDown() override {
    if (mounted_) ::umount2(Etc().c_str(), MNT_DETACH);
  }
  [[nodiscard]] fs::path Etc() const { return folder_.path() / "etc"; }
  void Name(const std::string& config, const std::string& drop_in) {
    options_.config = Etc() / config;
    if (!drop_in.empty()) options_.drop_in = Etc() / drop_in;
  }
  void Write(const std::string& name, const std::string& text) const {
    folder_.Write(fs::path("etc") / name, text);
  }
  // Fills the disk but for so many pages.
  void Fill(int free_pages) const {
    fs::remove(Etc() / "filler");
    const auto space = fs::space(Etc()).available;
    const auto keep = static_cast<std::uintmax_t>(free_pages) * kPage;
    if (space <= keep) return;
    std::ofstream(Etc() / "filler") << std::string(space - keep, 'f');
  }
  [[nodiscard]] std::map<std::string, std::string> Look() const {
    std::map<std::string, std::string> tree;
    for (const auto& entry : fs::recursive_directory_iterator(Etc())) {
      if (entry.is_directory() || entry.path().filename() == "filler") continue;
      tree[entry.path().string()] = base::ReadFile(entry.path()).value_or("?");
    }
    return tree;
  }
  [[nodiscard]] base::Status Configure() const {
    TRY_ASSIGN(const auto source, ReadEngineConfig(options_));
    return ConfigureEngine(options_, source, "/t", folder_.path() / "state", {});
  }
  [[nodiscard]] bool HasJournal() const {
    return fs::exists(folder_.path() / "state/engine-change.json");
  }

  test_support::TemporaryFolder folder_;
  EngineOptions options_;
  bool mounted_ = false;
};

TEST_P(EngineDisk, WhereItIsFullTheOldFilesStay) {
  const auto site = Look();
  int refused = 0;
  bool configured = false;
  for (int pages = 0; pages < kPages && !configured; ++pages) {
    Fill(pages);
    const auto done = Configure();
    configured = done.has_value();
    if (configured) break;
    ++refused;
    EXPECT_THAT(done.error().message, HasSubstr(Etc().string())) << pages;
    EXPECT_EQ(Look(), site) << pages;
    EXPECT_FALSE(HasJournal()) << pages;
  }
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(configured) << "with enough room";
  EXPECT_NE(Look(), site);
}

TEST_P(EngineDisk, WhereItCannotBeWrittenTheErrorNamesTheFile) {
  const auto site = Look();
  ASSERT_EQ(::mount(nullptr, Etc().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const auto done = Configure();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr(Etc().string()));
  EXPECT_EQ(Look(), site);
  EXPECT_FALSE(HasJournal());
  ASSERT_EQ(::mount(nullptr, Etc().c_str(), nullptr, MS_REMOUNT, nullptr), 0);
  EXPECT_TRUE(Configure());
}

// Leaving is finished by the next one, and meanwhile each file is whole.
TEST_P(EngineDisk, LeavingWhereItCannotBeWrittenIsMadeUpFor) {
  const auto restore = [&] { return RestoreEngine(options_, "/t", folder_.path() / "state"); };
  ASSERT_TRUE(Configure());
  const auto configured = Look();
  ASSERT_TRUE(restore());
  const auto restored = Look();
  ASSERT_NE(restored, configured);
  const auto is_whole = [&](const std::string& path, const std::string& text) {
    for (const auto* tree : {&configured, &restored}) {
      if (const auto file = tree->find(path); file != tree->end() && file->second == text) {
        return true;
      }
    }
    return false;
  };
  for (const bool read_only : {false, true}) {
    ASSERT_TRUE(Configure());
    if (read_only) {
      ASSERT_EQ(::mount(nullptr, Etc().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    } else {
      Fill(0);
    }
    const auto done = restore();
    if (read_only) {
      ASSERT_FALSE(done);
      EXPECT_EQ(Look(), configured);
    }
    if (!done) {
      EXPECT_THAT(done.error().message, HasSubstr(Etc().string()));
    }
    for (const auto& [path, text] : Look()) EXPECT_TRUE(is_whole(path, text)) << path;
    if (read_only) {
      ASSERT_EQ(::mount(nullptr, Etc().c_str(), nullptr, MS_REMOUNT, nullptr), 0);
    }
    fs::remove(Etc() / "filler");
    ASSERT_TRUE(restore());
    EXPECT_EQ(Look(), restored);
    EXPECT_FALSE(HasJournal());
  }
}

// Without a journal nothing is begun.
TEST_P(EngineDisk, WithoutRoomForTheJournalNothingIsWritten) {
  const auto site = Look();
  const auto state = folder_.path() / "state";
  ASSERT_EQ(::mount("tmpfs", state.c_str(), "tmpfs", 0, "size=4096"), 0);
  std::ofstream(state / "filler") << std::string(kPage, 'f');
  const auto done = Configure();
  EXPECT_EQ(::umount2(state.c_str(), MNT_DETACH), 0);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("engine-change.json"));
  EXPECT_EQ(Look(), site);
  EXPECT_TRUE(Configure());
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineDisk,
                         ::testing::Values(EngineKind::kContainerd, EngineKind::kCrio,
                                           EngineKind::kDocker),
                         [](const auto& engine) { return std::string(ToString(engine.param)); });

}  // namespace
}  // namespace pitcrew::node::toolkit

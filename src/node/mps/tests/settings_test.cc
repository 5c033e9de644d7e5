#include "node/mps/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "node/mps/shared_memory.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::mps {
namespace {

using ::testing::HasSubstr;

class MpsSettings : public ::testing::Test {
 protected:
  base::Result<Settings> Read(std::vector<const char*> words,
                              const std::map<std::string, std::string>& environment = {}) {
    words.insert(words.begin(), "mps-control-daemon");
    const auto options = ParseOptions(
        static_cast<int>(words.size()), words.data(),
        [&](const std::string& name) -> std::optional<std::string> {
          const auto found = environment.find(name);
          return found == environment.end() ? std::nullopt : std::optional(found->second);
        });
    if (!options) return base::Fail(options.error());
    return ReadSettings(options->value());
  }
  std::string File(std::string_view text) { return folder_.Write("config.yaml", text).string(); }

  test_support::TemporaryFolder folder_;
};

TEST_F(MpsSettings, DefaultsShareNothing) {
  const auto settings = Read({});
  ASSERT_TRUE(settings) << settings.error().ToString();
  EXPECT_EQ(settings->mig_strategy, gpu::MigStrategy::kNone);
  EXPECT_TRUE(settings->fail_on_init_error);
  EXPECT_EQ(settings->sharing.strategy(), api::SharingStrategy::kNone);
}

TEST_F(MpsSettings, CommandLineOverEnvironmentOverFile) {  // device-plugin.md sections 3.1, 17.1
  const auto file = File("flags: {migStrategy: mixed, failOnInitError: false}");
  const std::map<std::string, std::string> environment = {{"CONFIG_FILE", file}};
  EXPECT_EQ(Read({}, environment)->mig_strategy, gpu::MigStrategy::kMixed);
  EXPECT_FALSE(Read({}, environment)->fail_on_init_error);
  auto more = environment;
  more["MIG_STRATEGY"] = "single";
  EXPECT_EQ(Read({}, more)->mig_strategy, gpu::MigStrategy::kSingle);
  EXPECT_EQ(Read({"--mig-strategy=none"}, more)->mig_strategy, gpu::MigStrategy::kNone);
  EXPECT_EQ(Read({"-config-file", "/dev/null"}, environment)->mig_strategy,
            gpu::MigStrategy::kNone);
}

TEST_F(MpsSettings, MpsWithMixedIsRefused) {
  RecordProperty("holds", "device-plugin.md #47");
  const auto file = File("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}");
  EXPECT_TRUE(Read({"--config-file", file.c_str(), "--mig-strategy=single"}));
  const auto refused = Read({"--config-file", file.c_str(), "--mig-strategy=mixed"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("none or single while devices are shared by MPS"));
}

TEST_F(MpsSettings, WrongOnesAreRefused) {
  EXPECT_EQ(Read({"--mig-strategy=some"}).error().reason, "BadSettings");
  EXPECT_EQ(Read({"--no-such-flag"}).error().code, base::Code::kInvalid);
  EXPECT_EQ(Read({"mount"}).error().code, base::Code::kInvalid);
  EXPECT_FALSE(Read({}, {{"CONFIG_FILE", File("version: v2")}}));
  EXPECT_FALSE(Read({}, {{"CONFIG_FILE", "/nonexistent/config.yaml"}}));
}

TEST(SharedMemory, IsHalfOfTheNodesMemory) {  // device-plugin.md section 17.2
  EXPECT_EQ(SharedMemorySize("MemTotal:       16318277 kB\nMemFree: 1 kB\n"), "8159138k");
  EXPECT_EQ(SharedMemorySize("MemFree: 5 kB\nMemTotal: 7\n"), "3");
  for (const char* unknown : {"", "MemFree: 5 kB\n", "MemTotal: many kB\n"}) {
    EXPECT_EQ(SharedMemorySize(unknown), "65536k") << unknown;
  }
}

}  // namespace
}  // namespace pitcrew::node::mps

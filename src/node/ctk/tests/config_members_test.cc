// config.toml in the hands of nvidia-ctk: what nothing heeds is said, and what of it is for
// specifications that are written beforehand is heeded then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "node/ctk/command.h"
#include "node/toolkit/config_document.h"
#include "node/toolkit/installation.h"
#include "shim/config.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::ctk {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What it prints, and what it says.
std::string Said(std::vector<std::string> words) {
  words.insert(words.begin(), "nvidia-ctk");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  (void)Command(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  return ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
}

TEST(ConfigTomlMembers, WhatHasNoEffectIsSaid) {
  const test_support::TemporaryFolder folder;
  const auto file =
      folder.Write("config.toml", "[nvidia-container-cli]\nldcache = \"/x\"\n").string();
  EXPECT_THAT(Said({"config", "--config-file=" + file}), HasSubstr("nvidia-container-cli.ldcache"));
  const auto set = Said({"config", "--config-file=" + (folder.path() / "none").string(), "--set",
                         "nvidia-container-cli.environment=A=b"});
  EXPECT_THAT(set, HasSubstr("member=nvidia-container-cli.environment"));
  EXPECT_THAT(Said({"config", "--config-file=" + (folder.path() / "none").string()}),
              Not(HasSubstr("no effect")));
}

TEST(ConfigTomlMembers, NeitherDefaultsNorTheToolkitsOwnFileHaveAny) {
  const auto defaults = toolkit::ConfigDocument::Defaults();
  EXPECT_THAT(shim::UnheededMembers(defaults.values(), ""), IsEmpty());
  toolkit::Options options;
  const auto config = shim::ParseConfig(toolkit::RuntimeConfigText(options, {"runc"}), "installed",
                                        options.toolkit_folder());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->unheeded, IsEmpty());
  EXPECT_EQ(config->csv_lists, cdi::kUsualListsFolder);
  options.runtime.opt_in_features = {"allow-unknown-oci-spec-fields", "no-such-feature"};
  const auto more = shim::ParseConfig(toolkit::RuntimeConfigText(options, {"runc"}), "installed",
                                      options.toolkit_folder());
  ASSERT_EQ(more->unheeded.size(), 1U);
  EXPECT_EQ(more->unheeded[0].member, "features.no-such-feature");
}

// The lists of the folder that config.toml names; the runtime's specification says which.
TEST(ConfigTomlMembers, ListsAreThoseOfMountSpecPath) {
  const test_support::TemporaryFolder folder;
  folder.Write("root/etc/nv_tegra_release", "# R36\n");
  folder.Write("lists/devices.csv", "dev, /dev/null\n");
  folder.Write("lists/drivers.csv", "lib, /usr/lib/tegra/libnvos.so\n");
  folder.Write("root/usr/lib/tegra/libnvos.so", "x");
  const auto lists = (folder.path() / "lists").string();
  const auto config = folder.Write(
      "config.toml", "[nvidia-container-runtime.modes.csv]\nmount-spec-path = \"" + lists + "\"\n");
  const auto generate = [&](const std::string& vendor) {
    return Said({"--config=" + config.string(), "cdi", "generate", "--mode=csv",
                 "--driver-root=" + (folder.path() / "root").string(), "--dev-root=/",
                 "--vendor=" + vendor});
  };
  const auto ours = generate("nvidia.com");
  EXPECT_THAT(ours, HasSubstr("containerPath: /usr/lib/tegra/libnvos.so"));
  EXPECT_THAT(ours, Not(HasSubstr("annotations:")));
  EXPECT_THAT(generate("runtime.nvidia.com"),
              HasSubstr("runtime.nvidia.com/mount-spec-path: " + lists));
}

}  // namespace
}  // namespace pitcrew::node::ctk

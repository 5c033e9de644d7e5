// config.toml, member by member (container-toolkit.md 3.2): each is heeded, told of, or refused.
#include "shim/config_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cdi/driver_annotations.h"
#include "cdi/format.h"
#include "codec/toml.h"
#include "shim/config.h"
#include "shim/prepared_edits.h"
#include "shim/report.h"
#include "shim/runtime.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Told(const std::string& text, const std::string& toolkit_folder = "") {
  const auto config = ParseConfig(text, "config.toml", toolkit_folder);
  EXPECT_TRUE(config) << config.error().message;
  std::vector<std::string> members;
  if (!config) return members;
  for (const auto& one : config->unheeded) members.push_back(one.member);
  return members;
}

Config Parsed(const std::string& text) {
  auto config = ParseConfig(text, "config.toml");
  EXPECT_TRUE(config) << config.error().message;
  return config ? *std::move(config) : Config();
}

TEST(ConfigMembers, WhatNobodyHeedsIsToldByName) {
  const std::string cli = "[nvidia-container-cli]\n";
  EXPECT_THAT(Told(cli + "path = \"/usr/bin/nvidia-container-cli\"\n"),
              ElementsAre("nvidia-container-cli.path"));
  EXPECT_THAT(
      Told(cli + "environment = [\"A=b\"]\nldcache = \"/x\"\nno-pivot = true\nuser = \"a:b\"\n"
                 "ldconfig = \"@/opt/own\"\n"),
      ElementsAre("nvidia-container-cli.environment", "nvidia-container-cli.ldcache",
                  "nvidia-container-cli.ldconfig", "nvidia-container-cli.no-pivot",
                  "nvidia-container-cli.user"));
  EXPECT_THAT(Told("[nvidia-ctk]\npath = \"/a/nvidia-ctk\"\n[nvidia-container-runtime-hook]\n"
                   "path = \"/a/hook\"\n[features]\nallow-unknown-oci-spec-fields = false\n"),
              ElementsAre("features.allow-unknown-oci-spec-fields",
                          "nvidia-container-runtime-hook.path", "nvidia-ctk.path"));
  const std::string modes = "[nvidia-container-runtime.modes.";
  EXPECT_THAT(Told(modes + "csv]\ncompat-container-root = \"/x\"\n"),
              ElementsAre("nvidia-container-runtime.modes.csv.compat-container-root"));
  EXPECT_THAT(Told(modes + "legacy]\ncuda-compat-mode = \"mount\"\n"),
              ElementsAre("nvidia-container-runtime.modes.legacy.cuda-compat-mode"));
  EXPECT_THAT(
      Told(modes +
           "jit-cdi]\nnvcdi-disable-hooks = [\"chmod\", \"no-hook\"]\nnvcdi-feature-flags = "
           "[\"disable-multiple-csv-devices\", \"disable-ipc-discoverer\", \"new\"]\n"),
      ElementsAre("nvidia-container-runtime.modes.jit-cdi.nvcdi-disable-hooks: no-hook",
                  "nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags: "
                  "disable-multiple-csv-devices",
                  "nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags: new"));
  EXPECT_THAT(Told("[nvidia-container-runtime-hook]\nskip-mode-detection = true\n"),
              ElementsAre("nvidia-container-runtime-hook.skip-mode-detection"));
  // A slip of the pen.
  EXPECT_THAT(Told("disable-requires = true\n[nvidia-container-runtime]\nmod = \"cdi\"\n"),
              ElementsAre("disable-requires", "nvidia-container-runtime.mod"));
}

TEST(ConfigMembers, DefaultsAndWhatTheToolkitWritesAreNotTold) {
  EXPECT_THAT(
      Told("[nvidia-container-cli]\nenvironment = []\nldcache = \"\"\npath = \"\"\nuser = \"\"\n"
           "load-kmods = true\nno-cgroups = false\nno-pivot = false\n"
           "ldconfig = \"@/run/nvidia/driver/sbin/ldconfig.real\"\n"
           "[nvidia-container-runtime-hook]\npath = \"nvidia-container-runtime-hook\"\n"
           "skip-mode-detection = false\n"
           "[nvidia-ctk]\npath = \"nvidia-ctk\"\n"
           "[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = \"ldconfig\"\n"
           "[features]\ndisable-imex-channel-creation = true\n"),
      IsEmpty());
  const std::string installed =
      "[nvidia-container-cli]\npath = \"/usr/local/nvidia/toolkit/nvidia-container-cli\"\n"
      "[nvidia-container-runtime-hook]\nskip-mode-detection = true\n"
      "path = \"/usr/local/nvidia/toolkit/nvidia-container-runtime-hook\"\n"
      "[nvidia-ctk]\npath = \"/usr/local/nvidia/toolkit/nvidia-ctk\"\n";
  EXPECT_THAT(Told(installed, "/usr/local/nvidia/toolkit"), IsEmpty());
  EXPECT_EQ(Told(installed, "/opt/other").size(), 3U);
}

TEST(ConfigMembers, OneLineNamesThemAll) {
  const auto config =
      Parsed("[nvidia-container-cli]\nldcache = \"/x\"\n[nvidia-ctk]\npath = \"/b\"\n");
  EXPECT_EQ(
      ToText(config.unheeded, "/etc/config.toml"),
      "/etc/config.toml sets what has no effect: nvidia-container-cli.ldcache "
      "(libnvidia-container is not used); nvidia-ctk.path (hooks are those that specifications "
      "name)");
}

TEST(ConfigMembers, AnLdconfigOfTheContainerIsRefusedUnlessAllowed) {
  RecordProperty("holds", "container-toolkit.md #5");
  const std::string text = "[nvidia-container-cli]\nldconfig = \"/some/path\"\n";
  const auto refused = ParseConfig(text, "config.toml");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kInvalid);
  EXPECT_NE(refused.error().message.find("nvidia-container-cli.ldconfig"), std::string::npos);
  EXPECT_TRUE(ParseConfig(text + "[features]\nallow-ldconfig-from-container = true\n", "c"));
}

TEST(ConfigMembers, LegacyModesMembers) {
  const auto config =
      Parsed("[nvidia-container-cli]\ndebug = \"/var/log/cli.log\"\nno-cgroups = true\n");
  EXPECT_EQ(config.legacy_log, "/var/log/cli.log");
  EXPECT_FALSE(config.legacy_device_rules);
  EXPECT_TRUE(Config().legacy_device_rules);
  const auto compat = [](const std::string& mode, const std::string& feature = "") {
    return Parsed("[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = \"" + mode + "\"\n" +
                  (feature.empty() ? "" : "[features]\n" + feature + " = true\n"))
        .legacy_cuda_compat;
  };
  EXPECT_TRUE(compat("ldconfig"));
  EXPECT_TRUE(compat("ldconfig", "disable-cuda-compat-lib-hook"));
  EXPECT_TRUE(compat("mount"));
  EXPECT_TRUE(compat("hook"));
  EXPECT_FALSE(compat("hook", "disable-cuda-compat-lib-hook"));
  EXPECT_FALSE(compat("disabled"));
  EXPECT_FALSE(compat(""));
  EXPECT_TRUE(compat("", "allow-cuda-compat-libs-from-container"));
  EXPECT_FALSE(compat("magic"));
}

cdi::ContainerEdits Prepared() {
  cdi::ContainerEdits edits;
  for (const auto* name : {"enable-cuda-compat", "update-ldcache"}) {
    edits.hooks.push_back(
        {"createContainer", "/h/nvidia-cdi-hook", {"nvidia-cdi-hook", name}, {}, {}});
  }
  edits.hooks.push_back(
      {"createContainer", "/h/nvidia-ctk", {"nvidia-ctk", "hook", "create-symlinks"}, {}, {}});
  edits.mounts = {{"/dev", "/run/nvidia-persistenced/socket", {"rbind", "noexec"}, ""},
                  {"/dev/shm", "/srv/mps", {"rbind", "noexec"}, ""},
                  {"/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", {"ro", "rbind"}, ""}};
  edits.additional_gids = {44};
  return edits;
}

std::vector<std::string> HooksAfter(const std::string& config, Mode mode) {
  auto edits = Prepared();
  TakeAway(Parsed(config), mode, edits);
  std::vector<std::string> names;
  for (const auto& hook : edits.hooks) names.push_back(hook.args.back());
  return names;
}

TEST(PreparedEdits, HooksThatAreSwitchedOff) {
  const std::string off = "[nvidia-container-runtime.modes.jit-cdi]\nnvcdi-disable-hooks = ";
  for (const auto mode : {Mode::kPrepared, Mode::kCsv}) {
    EXPECT_THAT(HooksAfter(off + "[\"create-symlinks\"]\n", mode),
                ElementsAre("enable-cuda-compat", "update-ldcache"));
    EXPECT_THAT(HooksAfter(off + "[\"all\"]\n", mode), IsEmpty());
  }
  EXPECT_EQ(HooksAfter(off + "[\"all\"]\n", Mode::kCdi).size(), 3U);
  EXPECT_EQ(HooksAfter(off + "[\"all\"]\n", Mode::kLegacy).size(), 3U);
  const std::string compat =
      "[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = \"disabled\"\n";
  EXPECT_THAT(HooksAfter(compat, Mode::kLegacy), ElementsAre("update-ldcache", "create-symlinks"));
  EXPECT_EQ(HooksAfter(compat, Mode::kPrepared).size(), 3U);
}

TEST(PreparedEdits, GroupsAndSockets) {
  const std::string flags = "[nvidia-container-runtime.modes.jit-cdi]\nnvcdi-feature-flags = ";
  for (const auto& text :
       {flags + "[\"no-additional-gids-for-device-nodes\"]\n",
        std::string("[features]\nno-additional-gids-for-device-nodes = true\n")}) {
    for (const auto mode : {Mode::kPrepared, Mode::kCsv, Mode::kLegacy, Mode::kCdi}) {
      auto edits = Prepared();
      TakeAway(Parsed(text), mode, edits);
      EXPECT_EQ(edits.additional_gids.empty(), mode != Mode::kCdi) << text;
    }
  }
  auto edits = Prepared();
  TakeAway(Parsed(flags + "[\"disable-ipc-discoverer\"]\n"), Mode::kPrepared, edits);
  ASSERT_EQ(edits.mounts.size(), 1U);
  EXPECT_EQ(edits.mounts[0].container_path, "/usr/bin/nvidia-smi");
}

// A daemon that has ended takes its socket along; of the driver's files none may lack.
TEST(PreparedEdits, ASocketThatIsGoneKeepsNoContainerFromStarting) {
  for (const auto mode : {Mode::kPrepared, Mode::kCsv, Mode::kLegacy, Mode::kCdi}) {
    auto edits = Prepared();
    for (auto& mount : edits.mounts) mount.host_path = "/no/such" + mount.host_path;
    TakeAway({}, mode, edits);
    EXPECT_EQ(edits.mounts.size(), mode == Mode::kCdi ? 3U : 1U);
    EXPECT_EQ(edits.mounts.back().container_path, "/usr/bin/nvidia-smi");
    auto there = Prepared();
    TakeAway({}, mode, there);
    EXPECT_EQ(there.mounts.size(), 3U);
  }
}

// What a Tegra container gets depends on the lists that config.toml names.
TEST(PreparedEdits, ListsOfAnotherFolderAreRefused) {
  const auto config = Parsed("[nvidia-container-runtime.modes.csv]\nmount-spec-path = \"/own\"\n");
  const std::vector<cdi::Annotations> own = {{{std::string(cdi::kListsFolder), "/own"}}};
  const std::vector<cdi::Annotations> usual = {
      {{std::string(cdi::kListsFolder), std::string(cdi::kUsualListsFolder)}}};
  const std::vector<cdi::Annotations> none = {{}};
  for (const auto mode : {Mode::kCsv, Mode::kPrepared}) {
    EXPECT_TRUE(CheckLists(config, mode, own));
    const auto refused = CheckLists(config, mode, usual);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "OtherLists");
    EXPECT_FALSE(CheckLists(Config(), mode, own));
    EXPECT_TRUE(CheckLists(Config(), mode, usual));
    EXPECT_TRUE(CheckLists(Config(), mode, none));
  }
  EXPECT_FALSE(CheckLists(config, Mode::kCsv, none));
  // A node with GPUs of its own has no lists.
  EXPECT_TRUE(CheckLists(config, Mode::kPrepared, none));
  EXPECT_TRUE(CheckLists(config, Mode::kCdi, usual));
}

// no-cgroups, of libnvidia-container alone.
TEST(PreparedEdits, NoDeviceRulesInModeLegacy) {
  const test_support::TemporaryFolder folder;
  cdi::Spec written{"", "runtime.nvidia.com/gpu", {}, {}, {}};
  written.devices.push_back({"0", {}, {}});
  written.devices[0].edits.device_nodes.push_back(
      {"/dev/nvidia0", "", "c", 195, 0, 0666, "", {}, {}});
  ASSERT_TRUE(cdi::WriteSpecFile(folder.path() / "runtime.yaml", written));
  Config config;
  config.spec_folders = {folder.path()};
  config.legacy_device_rules = false;
  const auto rules = [&](std::string_view mode) {
    auto spec = oci::Spec::Parse(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=0"]}})");
    EXPECT_TRUE(EditSpec(*spec, config, mode, Report()));
    EXPECT_EQ(spec->json()["linux"]["devices"].size(), 1U);
    return spec->json()["linux"].contains("resources");
  };
  EXPECT_FALSE(rules("legacy"));
  EXPECT_TRUE(rules("jit-cdi"));
  config.legacy_device_rules = true;
  EXPECT_TRUE(rules("legacy"));
}

TEST(ReportTest, LevelsAreLogrus) {
  const test_support::TemporaryFolder folder;
  const auto lines = [&](std::string_view level) {
    const auto path = folder.path() / std::string("log-" + std::string(level));
    Report report;
    report.AddFile(path.string(), false);
    const bool known = report.SetLevel(level);
    report.Debug("fine");
    report.Warning("strange");
    const auto text = base::ReadFile(path).value_or("");
    return std::string(known ? "" : "unknown ") + (text.contains("fine") ? "debug " : "") +
           (text.contains("strange") ? "warning" : "");
  };
  EXPECT_EQ(lines("debug"), "debug warning");
  EXPECT_EQ(lines("TRACE"), "debug warning");
  EXPECT_EQ(lines("info"), "warning");
  EXPECT_EQ(lines("Warn"), "warning");
  EXPECT_EQ(lines("error"), "");
  EXPECT_EQ(lines("panic"), "");
  EXPECT_EQ(lines("loud"), "unknown warning");
}

}  // namespace
}  // namespace pitcrew::shim

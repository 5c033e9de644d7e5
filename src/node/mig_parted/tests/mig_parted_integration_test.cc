// nvidia-mig-parted as a program on simulated GPUs, also killed at every change that it makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "simulation/testing/process.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::node::mig_parted {
namespace {

namespace fs = std::filesystem;
using simulation::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kConfigs = R"(version: v1
mig-configs:
  none:
  - {devices: all, mig-enabled: false}
  small:
  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}
  balanced:
  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}
  impossible:
  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}
)";

class MigPartedTest : public ::testing::Test {
 protected:
  MigPartedTest() {
    std::ofstream(config_) << kConfigs;
    Start("gpus: [{profile: A100-40, count: 2}]");
  }
  ~MigPartedTest() override { fs::remove_all(folder_); }

  void Start(const std::string& description) {
    node_ = std::make_unique<simulation::TestNode>(description);
    node_->Use();
  }
  Outcome Run(std::vector<std::string> words, std::map<std::string, std::string> more = {}) const {
    words.insert(words.begin(), (test_support::BuildFolder() / "bin/mig_parted_program").string());
    more.merge(node_->Environment());
    more["LD_LIBRARY_PATH"] = (test_support::BuildFolder() / "lib").string();
    more["MIG_PARTED_JOURNAL_FILE"] = journal_;
    return simulation::RunProgram(words, more);
  }
  Outcome Apply(const std::string& name, std::map<std::string, std::string> more = {}) const {
    return Run({"apply", "-f", config_, "-c", name}, std::move(more));
  }
  [[nodiscard]] bool Is(const std::string& name) const {
    return Run({"assert", "-f", config_, "-c", name}).status == 0;
  }
  std::string Write(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  const fs::path folder_ = simulation::MakeTemporaryFolder();
  const std::string config_ = folder_ / "config.yaml";
  const std::string journal_ = folder_ / "journal.json";
  std::unique_ptr<simulation::TestNode> node_;
};

// mig-manager.md section 2.2.
TEST_F(MigPartedTest, SaysWhatItDid) {
  EXPECT_EQ(Apply("balanced").output, "MIG configuration applied successfully\n");
  EXPECT_EQ(Run({"assert", "-f", config_, "-c", "balanced"}).output,
            "Selected MIG configuration currently applied\n");
  EXPECT_EQ(Run({"assert", "-f", config_, "-c", "small", "-m"}).output,
            "Selected MIG mode settings from configuration currently applied\n");
  EXPECT_EQ(Run({"assert", "-f", config_, "-c", "impossible", "-a"}).output,
            "Selected MIG configuration is valid\n");
  EXPECT_EQ(Run({"export"}).output,
            "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n"
            "    mig-devices:\n      1g.5gb: 2\n      2g.10gb: 1\n      3g.20gb: 1\n");
  const auto saved = (folder_ / "checkpoint.json").string();
  EXPECT_EQ(Run({"checkpoint", "-f", saved}).output,
            "MIG configuration checkpointed successfully\n");
  EXPECT_EQ(Apply("none").status, 0);
  EXPECT_EQ(Run({"restore", "-f", saved}).output, "MIG configuration restored successfully\n");
  EXPECT_TRUE(Is("balanced"));
  EXPECT_EQ(Run({"recover"}).output, "No MIG change was cut off\n");
}

TEST_F(MigPartedTest, ExportsAndGeneratesJsonAndYaml) {
  EXPECT_EQ(Run({"export", "-o", "json", "-l", "mine"}).output,
            "{\n  \"version\": \"v1\",\n  \"mig-configs\": {\n    \"mine\": [\n      {\n"
            "        \"devices\": \"all\",\n        \"mig-enabled\": false,\n"
            "        \"mig-devices\": {}\n      }\n    ]\n  }\n}");
  const auto generated = Run({"generate-config"});
  EXPECT_EQ(generated.status, 0) << generated.errors;
  EXPECT_THAT(generated.output, StartsWith("version: v1\nmig-configs:\n  all-1g.5gb:\n"));
  EXPECT_THAT(generated.output, HasSubstr("  all-balanced:\n"));
  const auto file = (folder_ / "generated.yaml").string();
  EXPECT_EQ(Run({"generate-config", "-f", file}).output, "");
  EXPECT_EQ(*base::ReadFile(file), generated.output);
  EXPECT_EQ(Run({"apply", "-f", file, "-c", "all-balanced"}).status, 0);
  EXPECT_TRUE(Is("balanced"));
}

TEST_F(MigPartedTest, WhatIsWrongIsSaidAndTheStatusIs1) {
  const auto refuses = [&](std::vector<std::string> words, const std::string& why) {
    const auto outcome = Run(std::move(words));
    EXPECT_EQ(outcome.status, 1) << why;
    EXPECT_THAT(outcome.errors, HasSubstr(why));
  };
  refuses({"apply"}, "issing required flags 'config-file'");
  refuses({"assert"}, "issing required flags 'config-file'");
  refuses({"checkpoint"}, "issing required flags 'checkpoint-file'");
  refuses({"restore"}, "issing required flags 'checkpoint-file'");
  refuses({"export", "-o", "xml"}, "nrecognized 'output-format': xml");
  refuses({"hooks"}, "here is no command hooks");
  refuses({"apply", "-f", "/no/such/file"}, "rror parsing config file: read error: ");
  refuses({"apply", "-f", Write("bad.yaml", "version: v2")},
          "rror parsing config file: unmarshal error: ");
  refuses({"apply", "-f", config_},
          "rror selecting MIG config: missing required flag 'selected-config' when more than one "
          "config available");
  refuses({"apply", "-f", config_, "-c", "sometime"},
          "rror selecting MIG config: selected mig-config not present: sometime");
  refuses({"assert", "-f", config_, "-c", "small"},
          "ssertion failure: selected configuration not currently applied");
  refuses({"apply", "-f", config_, "-c", "impossible"},
          "has no room for 8 x 1g.5gb; what fits is 7 x 1g.5gb");
  refuses({"restore", "-f", "/no/such/file"}, "rror parsing checkpoint file");
  EXPECT_TRUE(Is("none"));
}

TEST_F(MigPartedTest, HelpAndVersionAreNoErrors) {
  EXPECT_THAT(Run({"--help"}).output, AllOf(HasSubstr("apply"), HasSubstr("generate-config")));
  EXPECT_EQ(Run({"--help"}).status, 0);
  EXPECT_EQ(Run({}).status, 0);
  EXPECT_THAT(Run({"apply", "--help"}).output, HasSubstr("MIG_PARTED_SKIP_RESET"));
  EXPECT_THAT(Run({"--version"}).output, StartsWith("nvidia-mig-parted version v"));
}

TEST_F(MigPartedTest, FlagsHaveVariables) {
  const std::map<std::string, std::string> variables = {{"MIG_PARTED_CONFIG_FILE", config_},
                                                        {"MIG_PARTED_SELECTED_CONFIG", "small"}};
  EXPECT_EQ(Run({"apply"}, variables).status, 0);
  EXPECT_TRUE(Is("small"));
  EXPECT_EQ(Run({"apply", "--selected-config=none"}, variables).status, 0) << "the flag wins";
  EXPECT_TRUE(Is("none"));
}

// mig-manager.md sections 2.3 and 4.
TEST_F(MigPartedTest, HooksRunInOrderWithTheFlagsInTheirEnvironment) {
  const auto log = (folder_ / "log").string();
  std::string hooks = "version: v1\nhooks:\n";
  for (const auto* name : {"apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"}) {
    hooks += std::string("  ") + name + ":\n  - command: /bin/sh\n    args: [\"-c\", \"echo " +
             name + " $MIG_PARTED_SELECTED_CONFIG $MIG_PARTED_SKIP_RESET >> " + log + "\"]\n";
  }
  const auto file = Write("hooks.yaml", hooks);
  ASSERT_EQ(Run({"apply", "-f", config_, "-c", "small", "-k", file}).status, 0);
  EXPECT_EQ(*base::ReadFile(log),
            "apply-start small false\npre-apply-mode small false\npre-apply-config small false\n"
            "apply-exit small false\n");
  fs::remove(log);
  ASSERT_EQ(Run({"apply", "-f", config_, "-c", "small", "-k", file}).status, 0);
  EXPECT_EQ(*base::ReadFile(log), "apply-start small false\napply-exit small false\n");
  fs::remove(log);
  EXPECT_EQ(Run({"apply", "-f", config_, "-c", "impossible", "-k", file}).status, 1);
  EXPECT_FALSE(fs::exists(log)) << "nothing is stopped for what cannot be";
}

TEST_F(MigPartedTest, TheLastHookRunsAfterAFailureAndTheFirstOnesFailureEndsIt) {
  const auto log = (folder_ / "log").string();
  const auto note = [&](const std::string& text, int status) {
    return "  - {command: /bin/sh, args: [\"-c\", \"echo " + text + " >> " + log + "; exit " +
           std::to_string(status) + "\"]}\n";
  };
  const auto fails_later = Write("later.yaml", "hooks:\n  pre-apply-mode:\n" + note("mode", 1) +
                                                   "  apply-exit:\n" + note("exit", 0));
  const auto later = Run({"apply", "-f", config_, "-c", "small", "-k", fails_later});
  EXPECT_EQ(later.status, 1);
  EXPECT_THAT(later.errors, HasSubstr("rror applying MIG configuration with hooks: error running "
                                      "pre-apply-mode hook"));
  EXPECT_EQ(*base::ReadFile(log), "mode\nexit\n");
  fs::remove(log);
  const auto fails_first = Write("first.yaml", "hooks:\n  apply-start:\n" + note("start", 1) +
                                                   "  apply-exit:\n" + note("exit", 0));
  EXPECT_EQ(Run({"apply", "-f", config_, "-c", "small", "-k", fails_first}).status, 1);
  EXPECT_EQ(*base::ReadFile(log), "start\n");
  EXPECT_TRUE(Is("none"));
}

// The issue: kill -9 at every step, and it ends in the old or the new geometry.
class KilledTest : public MigPartedTest,
                   public ::testing::WithParamInterface<std::pair<const char*, const char*>> {
 protected:
  // Kills `to` at its n-th change, before or after it; `killed` is false when it ended by itself.
  void Kill(const char* kind, int at, bool& killed) {
    const auto outcome =
        Apply(GetParam().second,
              {{"PITCREW_SIMULATION_MIG_FAULT", std::string(kind) + ":" + std::to_string(at)}});
    killed = outcome.status != 0;
    ASSERT_TRUE(!killed || outcome.status == 128 + SIGKILL) << outcome.errors;
  }
};

TEST_P(KilledTest, RecoveryEndsInTheOldGeometry) {
  const auto [from, to] = GetParam();
  int steps = 0;
  for (const auto* kind : {"end-before", "end-after"}) {
    for (int at = 1;; ++at) {
      ASSERT_EQ(Apply(from).status, 0);
      bool killed = false;
      ASSERT_NO_FATAL_FAILURE(Kill(kind, at, killed));
      if (!killed) break;
      ++steps;
      const auto recovered = Run({"recover"});
      EXPECT_EQ(recovered.status, 0) << recovered.errors;
      EXPECT_TRUE(Is(from)) << kind << " " << at;
      EXPECT_FALSE(fs::exists(journal_));
    }
    EXPECT_TRUE(Is(to));
  }
  EXPECT_GE(steps, 8);
}

TEST_P(KilledTest, ApplyingAgainEndsInTheNewGeometry) {
  const auto [from, to] = GetParam();
  for (int at = 1;; ++at) {
    ASSERT_EQ(Apply(from).status, 0);
    bool killed = false;
    ASSERT_NO_FATAL_FAILURE(Kill("end-after", at, killed));
    if (!killed) break;
    const auto again = Apply(to);
    EXPECT_EQ(again.status, 0) << again.errors;
    EXPECT_TRUE(Is(to)) << at;
    EXPECT_FALSE(fs::exists(journal_));
  }
}

INSTANTIATE_TEST_SUITE_P(Transitions, KilledTest,
                         ::testing::Values(std::pair("none", "balanced"),
                                           std::pair("small", "balanced"),
                                           std::pair("balanced", "none")),
                         [](const auto& transition) {
                           return std::string(transition.param.first) + "To" +
                                  transition.param.second;
                         });

}  // namespace
}  // namespace pitcrew::node::mig_parted

// CRI-O that is restarted through the node's systemd, and looked at afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "codec/json.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine_checks.h"
#include "rpc/testing/fake_container_runtime.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"
#include "tests/system_bus/system_bus.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CrioOnANode : public ::testing::Test {
 protected:
  CrioOnANode() {
    options_.kind = EngineKind::kCrio;
    options_.restart = RestartMode::kSystemd;
    options_.host_root = root_.path();
    options_.config = root_.path() / "etc/crio/crio.conf";
    options_.drop_in = root_.path() / "etc/crio/crio.conf.d/99-nvidia.toml";
    options_.socket = root_.path() / "run/crio.sock";
    options_.set_as_default = false;
    root_.Write("state/empty", "");
    fs::create_directories(root_.path() / "run");
  }
  // CRI-O is up, with these runtimes, and so is systemd.
  void Start(std::vector<std::string> handlers, int refusals = 0) {
    crio_ =
        rpc::testing::FakeContainerRuntime::Start(options_.socket, refusals, std::move(handlers));
    ASSERT_TRUE(crio_);
    auto bus = test_support::SystemBus::Start(root_.path() / "run/dbus/system_bus_socket");
    ASSERT_TRUE(bus) << bus.error().message;
    bus_ = *std::move(bus);
    systemd_ = bus_->StartSystemd({{"crio.service", {{"loaded", "active", "running", "enabled"}}}});
  }
  [[nodiscard]] base::Status Configure() const {
    return ConfigureEngine(options_, codec::Json::object(), "/opt/t/toolkit",
                           root_.path() / "state", {});
  }

  test_support::TemporaryFolder root_;
  EngineOptions options_;
  std::unique_ptr<rpc::testing::FakeContainerRuntime> crio_;
  std::unique_ptr<test_support::SystemBus> bus_;
  std::unique_ptr<test_support::FakeSystemd> systemd_;
};

TEST_F(CrioOnANode, IsRestartedOnceAndAskedForItsRuntimes) {
  Start({"crun", "nvidia", "nvidia-cdi", "nvidia-legacy"}, 2);
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_THAT(systemd_->jobs(), ElementsAre("RestartUnit crio.service"));
  EXPECT_TRUE(fs::exists(options_.drop_in));
  EXPECT_EQ(crio_->refused(), 2);
  ASSERT_TRUE(Configure());
  EXPECT_THAT(systemd_->jobs(), ElementsAre("RestartUnit crio.service"));
}

// It came up, and does not have what was written for it: another file goes before ours, or it reads
// another folder.
TEST_F(CrioOnANode, WhatItDoesNotTakeIsPutBack) {
  RecordProperty("holds", "runtimes-and-distributions.md #23");
  const auto before = root_.Write("etc/crio/crio.conf.d/99-nvidia.toml", "# of the site\n");
  Start({"crun", "nvidia"});
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "RuntimeHandlerMissing");
  EXPECT_THAT(configured.error().message, HasSubstr("no runtime nvidia-cdi, nvidia-legacy"));
  EXPECT_EQ(base::ReadFile(before).value_or(""), "# of the site\n");
  EXPECT_THAT(systemd_->jobs(),
              ElementsAre("RestartUnit crio.service", "RestartUnit crio.service"));
  EXPECT_FALSE(fs::exists(root_.path() / "state/engine-change.json"));
}

// CRI-O before 1.30 tells no names.
TEST_F(CrioOnANode, WhoTellsNoRuntimesIsNotWrong) {
  Start({});
  const auto configured = Configure();
  EXPECT_TRUE(configured) << configured.error().message;
}

// `crio status config` tells what the process has that runs.
TEST_F(CrioOnANode, ItsOwnDumpHasToNameOurPrograms) {
  RecordProperty("holds", "runtimes-and-distributions.md #24");
  options_.host_root = "/";
  options_.executable = root_.Write("crio",
                                    "#!/bin/sh\n[ \"$*\" = 'status config' ] || exit 3\n"
                                    "cat \"${0%/*}/dump.toml\"\n");
  fs::permissions(options_.executable, fs::perms::owner_all);
  const std::vector<Runtime> runtimes = {{"nvidia", "/opt/t/toolkit/nvidia-container-runtime"}};
  const auto check = [&](const std::string& dump) {
    root_.Write("dump.toml", dump);
    return CheckRunning(options_, runtimes, {}, base::SteadyClock::now() + test_support::kPatience);
  };
  EXPECT_TRUE(
      check("[crio.runtime.runtimes.nvidia]\n"
            "runtime_path = \"/opt/t/toolkit/nvidia-container-runtime\"\n"));
  const auto other = check("[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/other\"\n");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().reason, "EngineConfigNotEffective");
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr("/usr/bin/other"), HasSubstr("whose name comes later")));
}

// Before 1.28 another program told it.
TEST_F(CrioOnANode, AnOlderOnesDumpIsThatOfCrioStatus) {
  RecordProperty("holds", "runtimes-and-distributions.md #24");
  options_.host_root = "/";
  options_.executable = root_.Write("bin/crio", "#!/bin/sh\nexit 1\n");
  const auto status = root_.Write("bin/crio-status",
                                  "#!/bin/sh\n[ \"$*\" = config ] || exit 3\n"
                                  "echo '[crio.runtime.runtimes.nvidia]'\n"
                                  "echo 'runtime_path = \"/usr/bin/other\"'\n");
  fs::permissions(options_.executable, fs::perms::owner_all);
  fs::permissions(status, fs::perms::owner_all);
  const auto other = CheckRunning(options_, {{"nvidia", "/x"}}, {},
                                  base::SteadyClock::now() + test_support::kPatience);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().reason, "EngineConfigNotEffective");
}

// One that has no such command, or does not answer it, is not known to be wrong.
TEST_F(CrioOnANode, WithoutADumpNothingIsKnown) {
  options_.host_root = "/";
  options_.executable = "/bin/false";
  EXPECT_TRUE(CheckRunning(options_, {{"nvidia", "/x"}}, {},
                           base::SteadyClock::now() + test_support::kPatience));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

// k3s from the finding of its containerd to the restart of its unit, and back: systemd on a real
// bus, a socket that answers as containerd does, files as k3s writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/node_engine.h"
#include "rpc/testing/fake_container_runtime.h"
#include "tests/support/temporary_folder.h"
#include "tests/system_bus/system_bus.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFolder = "var/lib/rancher/k3s/agent/etc/containerd";
constexpr const char* kRestart = "RestartUnit k3s-agent.service";

constexpr const char* kBuiltIn =
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n"
    "  runtime_type = \"io.containerd.runc.v2\"\n";

class K3sNode : public ::testing::Test {
 protected:
  K3sNode() {
    options_.engine.kind = EngineKind::kContainerd;
    options_.engine.set_as_default = false;
    options_.engine.host_root = root_.path();
    options_.engine.config_sources = {"file"};
    root_.Write("state/empty", "");
    fs::create_directories(root_.path() / "run/k3s/containerd");
  }
  void Start(std::vector<std::string> handlers) {
    const auto socket = root_.path() / "run/k3s/containerd/containerd.sock";
    k3s_ = rpc::testing::FakeContainerRuntime::Start(socket, 1, std::move(handlers));
    ASSERT_TRUE(k3s_);
    auto bus = test_support::SystemBus::Start(root_.path() / "run/dbus/system_bus_socket");
    ASSERT_TRUE(bus) << bus.error().message;
    bus_ = *std::move(bus);
    systemd_ =
        bus_->StartSystemd({{"k3s-agent.service", {{"loaded", "active", "running", "enabled"}}}});
    const auto process = fs::path("proc") / std::to_string(::getpid());
    root_.Write(process / "cmdline",
                std::string("containerd\0-c\0/", 15) + kFolder + std::string("/config.toml\0", 13));
    root_.Write(process / "cgroup", "0::/system.slice/k3s-agent.service\n");
  }
  // k3s writes its root file when it starts: what is built in, and what it found or was given.
  void Render(const std::string& more = {}) const {
    root_.Write(fs::path(kFolder) / "config.toml", kBuiltIn + more);
  }
  [[nodiscard]] static std::string Found() {
    std::string tables;
    for (const auto& [name, program] : {std::pair("nvidia", "nvidia-container-runtime"),
                                        std::pair("nvidia-cdi", "nvidia-container-runtime.cdi")}) {
      tables += std::string("[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'") +
                name + "'.options]\n  BinaryName = \"/usr/local/nvidia/toolkit/" + program + "\"\n";
    }
    return tables;
  }
  void Install() const {
    for (const auto* name : {"nvidia-container-runtime", "nvidia-container-runtime.cdi"}) {
      root_.Write(fs::path("usr/local/nvidia/toolkit") / name, "x");
    }
  }
  [[nodiscard]] base::Status Configure() {
    Options options = options_;
    TRY(ConfigureForDistribution({host::Root(root_.path()), root_.path() / "proc", 0}, options));
    TRY_ASSIGN(const auto source, ReadEngineConfig(options.engine));
    return ConfigureEngine(options.engine, source, options.toolkit_folder(), root_.path() / "state",
                           {});
  }
  [[nodiscard]] base::Status Restore() {
    Options options = options_;
    TRY(ConfigureForDistribution({host::Root(root_.path()), root_.path() / "proc", 0}, options));
    return RestoreEngine(options.engine, options.toolkit_folder(), root_.path() / "state");
  }
  [[nodiscard]] fs::path Template() const { return root_.path() / kFolder / "config-v3.toml.tmpl"; }

  test_support::TemporaryFolder root_;
  Options options_;
  std::unique_ptr<rpc::testing::FakeContainerRuntime> k3s_;
  std::unique_ptr<test_support::SystemBus> bus_;
  std::unique_ptr<test_support::FakeSystemd> systemd_;
};

TEST_F(K3sNode, WhereItFindsTheToolkitItIsRestartedOnceAndNoFileIsEdited) {
  RecordProperty("holds", "runtimes-and-distributions.md #28");
  Start({"runc", "nvidia"});
  Render();
  Install();
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart));
  Render(Found());  // as it does when it starts
  ASSERT_TRUE(Configure());
  ASSERT_TRUE(Restore());
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart));
  EXPECT_EQ(base::ReadFile(root_.path() / kFolder / "config.toml").value_or(""),
            kBuiltIn + Found());
  EXPECT_EQ(std::distance(fs::directory_iterator(root_.path() / kFolder), {}), 1);
}

// One that does not look there is not restarted again and again: a node's kubelet, and on servers
// the control plane, would go down each time.
TEST_F(K3sNode, OneThatDidNotFindTheToolkitIsNotRestartedAgain) {
  Start({"runc"});
  Render();
  Install();
  const auto first = Configure();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().reason, "RuntimeHandlerMissing");
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart));
  Render();
  const auto second = Configure();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().reason, "RuntimesNotFound");
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart));
}

TEST_F(K3sNode, ATemplateThatDoesNotHelpIsPutBack) {
  options_.install_folder = "/opt/n";
  const auto site = root_.Write(fs::path(kFolder) / "config-v3.toml.tmpl", "# of the site\n");
  Start({"runc", "nvidia", "nvidia-cdi"});
  Render();
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "RuntimeHandlerMissing");
  EXPECT_THAT(configured.error().message, HasSubstr("nvidia-legacy"));
  EXPECT_EQ(base::ReadFile(site).value_or(""), "# of the site\n");
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart, kRestart));
}

TEST_F(K3sNode, ATemplateIsWrittenAndTheUnitRestarted) {
  options_.install_folder = "/opt/n";
  Start({"runc", "nvidia", "nvidia-cdi", "nvidia-legacy"});
  Render();
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_THAT(base::ReadFile(Template()).value_or(""), HasSubstr("nvidia-legacy"));
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart));
  ASSERT_TRUE(Restore());
  EXPECT_FALSE(fs::exists(Template()));
  EXPECT_THAT(systemd_->jobs(), ElementsAre(kRestart, kRestart));
}

// A pod sees the node at /host, read-only. The root of the node's first process is the same one.
TEST_F(K3sNode, WhereTheNodeIsMountedReadOnlyItsFirstProcessShowsTheWay) {
  options_.install_folder = "/opt/n";
  Start({"runc"});
  Render();
  test_support::TemporaryFolder mounts;
  const auto host = mounts.path() / "host";
  fs::create_directories(host);
  if (::mount(root_.path().c_str(), host.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "a folder cannot be mounted here";
  }
  ASSERT_EQ(::mount(nullptr, host.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const auto find = [&](Options& options) {
    return ConfigureForDistribution({host::Root(host), root_.path() / "proc", 0}, options);
  };
  root_.Write("other/empty", "");
  fs::create_directories(root_.path() / "proc/1");
  fs::create_directory_symlink(root_.path() / "other", root_.path() / "proc/1/root");
  Options other = options_;
  const auto refused = find(other);
  fs::remove(root_.path() / "proc/1/root");
  fs::create_directory_symlink(root_.path(), root_.path() / "proc/1/root");
  Options options = options_;
  const auto found = find(options);
  EXPECT_EQ(::umount2(host.c_str(), MNT_DETACH), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "NodeIsReadOnly");
  EXPECT_THAT(refused.error().message, HasSubstr("hostPID"));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(options.engine.drop_in, root_.path() / "proc/1/root" / kFolder / "config-v3.toml.tmpl");
}

}  // namespace
}  // namespace pitcrew::node::toolkit

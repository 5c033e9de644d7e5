// A node with a container engine: its sockets and folders are real, its processes are files of a
// procfs of the test's own. All that listen are this process.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/node_engine.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {

inline constexpr pid_t kParent = 50;
inline constexpr pid_t kSelf = 70;
inline constexpr pid_t kShim = 60;

inline constexpr const char* kK3s = "/var/lib/rancher/k3s/agent/etc/containerd";
inline constexpr const char* kK3sSocket = "/run/k3s/containerd/containerd.sock";

inline constexpr const char* kRendered =
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n"
    "  runtime_type = \"io.containerd.runc.v2\"\n"
    "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n"
    "  SystemdCgroup = true\n";

class NodeEngineTest : public ::testing::Test {
 protected:
  NodeEngineTest() {
    options_.engine.kind = EngineKind::kContainerd;
    options_.engine.config = "/etc/containerd/config.toml";
    options_.engine.drop_in = "/etc/containerd/conf.d/99-nvidia.toml";
    options_.engine.set_as_default = false;
    options_.engine.host_root = node_.path();
    options_.install_folder = "/opt/n";
    std::filesystem::create_directories(At("/state"));
  }

  [[nodiscard]] std::filesystem::path At(const std::filesystem::path& inside) const {
    return node_.path() / inside.relative_path();
  }
  void Put(const std::filesystem::path& inside, std::string_view text) const {
    node_.Write(inside.relative_path(), text);
  }
  [[nodiscard]] std::string Text(const std::filesystem::path& inside) const {
    return base::ReadFile(At(inside)).value_or("(none)");
  }

  void Listen(const std::filesystem::path& inside) {
    const auto path = At(inside);
    std::filesystem::create_directories(path.parent_path());
    base::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.string().size(), sizeof(address.sun_path));
    std::strcpy(address.sun_path, path.c_str());
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(socket.get(), 8), 0);
    listening_.push_back(std::move(socket));
  }
  void Process(pid_t pid, const std::vector<std::string>& words, pid_t parent,
               const std::string& cgroup) const {
    std::string line;
    for (const auto& word : words) line += word + '\0';
    const auto folder = std::filesystem::path("proc") / std::to_string(pid);
    node_.Write(folder / "cmdline", line);
    node_.Write(folder / "status", "Name:\tx\nPPid:\t" + std::to_string(parent) + "\n");
    node_.Write(folder / "cgroup", "0::" + cgroup + "\n");
  }
  // containerd, which is this process, told to read `config`, in a unit, below another program.
  void Containerd(const std::string& config, const std::string& unit,
                  const std::vector<std::string>& parent) const {
    std::vector<std::string> words = {"containerd"};
    if (!config.empty()) words.insert(words.end(), {"-c", config});
    Process(::getpid(), words, kParent, unit.empty() ? "/" : "/system.slice/" + unit + "/x");
    Process(kParent, parent, 1, "/");
  }
  // The pod that asks, started by the shim of a containerd.
  void Pod(const std::string& address) const {
    Process(kSelf, {"nvidia-toolkit"}, kShim, "/kubepods/x");
    Process(kShim, {"/x/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-address", address},
            1, "/system.slice/k3s.service");
  }
  void K3s(const std::string& rendered, const std::string& unit = "k3s-agent.service",
           const std::string& program = "/usr/local/bin/k3s") {
    Put(std::string(kK3s) + "/config.toml", rendered);
    Listen(kK3sSocket);
    Containerd(std::string(kK3s) + "/config.toml", unit, {program, "agent"});
  }

  [[nodiscard]] NodeView View() const {
    return {host::Root(node_.path()), node_.path() / "proc", kSelf};
  }
  [[nodiscard]] base::Status Find() { return ConfigureForDistribution(View(), options_); }
  [[nodiscard]] base::Status Configure() const {
    EngineOptions engine = options_.engine;
    engine.restart = RestartMode::kNone;
    engine.config_sources = {"file"};
    TRY_ASSIGN(const auto source, ReadEngineConfig(engine));
    return ConfigureEngine(engine, source, options_.toolkit_folder(), At("/state"), {});
  }
  [[nodiscard]] base::Status Restore() const {
    EngineOptions engine = options_.engine;
    engine.restart = RestartMode::kNone;
    return RestoreEngine(engine, options_.toolkit_folder(), At("/state"));
  }

  test_support::TemporaryFolder node_;
  std::vector<base::FileDescriptor> listening_;
  Options options_;
};

}  // namespace pitcrew::node::toolkit

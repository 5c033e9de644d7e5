// Docker behind a socket that another process has made, as systemd does for dockerd -H fd://: who
// gets the signal, and what is asked afterwards.
#include "node/toolkit/docker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine_checks.h"
#include "node/toolkit/engine_process.h"
#include "tests/support/kill_at_change.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using codec::Json;
using ::testing::HasSubstr;

constexpr const char* kDockerSite = "{\"runtimes\": {\"other\": {\"path\": \"/usr/bin/other\"}}}";

// What a fake daemon does wrong.
struct DockerFaults {
  std::string name = "dockerd";
  bool keeps_runtimes = false;  // it reads its file, and goes on with the runtimes that it had
  bool says_nothing = false;    // no event when it has read it
  bool refuses = false;         // every request, as a plugin for authorization can
};

int g_hangup[2] = {-1, -1};
volatile sig_atomic_t g_listener_hangups = 0;

void SendAll(int to, const std::string& text) {
  (void)::send(to, text.data(), text.size(), MSG_NOSIGNAL);
}

// dockerd's part, in a process of its own: it serves a listening socket that it was given, reads
// its file at the start and at SIGHUP, and tells of that.
class FakeDocker {
 public:
  FakeDocker(int listener, fs::path config, DockerFaults faults)
      : listener_(listener), config_(std::move(config)), faults_(std::move(faults)) {}

  [[noreturn]] void Run() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, faults_.name.c_str());
    Read();
    for (;;) {
      std::vector<pollfd> waited = {{listener_, POLLIN, 0}, {g_hangup[0], POLLIN, 0}};
      if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) ::_exit(1);
      if ((waited[1].revents & POLLIN) != 0) Reload();
      if ((waited[0].revents & POLLIN) != 0) Serve(::accept(listener_, nullptr, nullptr));
    }
  }

 private:
  void Read() {
    const auto config = codec::ParseJson(base::ReadFile(config_).value_or("{}"));
    info_["Runtimes"] = config->value("runtimes", Json::object());
    info_["DefaultRuntime"] = config->value("default-runtime", "runc");
  }
  void Reload() {
    char byte = 0;
    (void)!::read(g_hangup[0], &byte, 1);
    ++reloads_;
    if (!faults_.keeps_runtimes) Read();
    if (faults_.says_nothing) return;
    for (const int listening : listening_) {
      SendAll(listening, "{\"Type\":\"daemon\",\"Action\":\"reload\"}\n");
    }
  }
  void Serve(int connection) {
    std::string request;
    char bytes[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::read(connection, bytes, sizeof(bytes));
      if (count <= 0) break;
      request.append(bytes, static_cast<std::size_t>(count));
    }
    info_["Reloads"] = reloads_;
    if (request.starts_with("GET /events?since=")) {
      SendAll(connection, std::string("HTTP/1.1 ") + (faults_.refuses ? "403 No" : "200 OK") +
                              "\r\nConnection: close\r\n\r\n");
      if (!faults_.refuses) {
        listening_.push_back(connection);
        return;
      }
    } else {
      const std::string body = request.starts_with("GET /info ") ? info_.dump() : "OK";
      SendAll(connection, std::string("HTTP/1.1 ") + (faults_.refuses ? "403 No" : "200 OK") +
                              "\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\nConnection: close\r\n\r\n" + body);
    }
    ::close(connection);
  }

  int listener_;
  fs::path config_;
  DockerFaults faults_;
  Json info_ = Json::object();
  int reloads_ = 0;
  std::vector<int> listening_;  // to its events
};

class DockerTest : public ::testing::Test {
 protected:
  DockerTest() {
    options_.kind = EngineKind::kDocker;
    options_.config = folder_.Write("etc/daemon.json", kDockerSite);
    options_.socket = folder_.path() / "docker.sock";
    options_.restart = RestartMode::kSignal;
    options_.host_root = "/";
    options_.config_sources = {"file"};
    options_.set_as_default = true;
    options_.restart_time = test_support::kPatience;
    folder_.Write("state/empty", "");
    g_listener_hangups = 0;
    old_ = ::signal(SIGHUP, [](int) { g_listener_hangups = g_listener_hangups + 1; });
  }
  ~DockerTest() override {
    if (daemon_ > 0) {
      ::kill(daemon_, SIGKILL);
      ::waitpid(daemon_, nullptr, 0);
    }
    for (int& end : g_hangup) {
      if (end >= 0) ::close(std::exchange(end, -1));
    }
    ::signal(SIGHUP, old_);
  }
  // This process listens, another one answers.
  void Start(DockerFaults faults = {}) {
    listener_ = base::FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(options_.socket.string().size(), sizeof(address.sun_path));
    std::strcpy(address.sun_path, options_.socket.c_str());
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listener_.get(), 8), 0);
    ASSERT_EQ(::pipe(g_hangup), 0);
    daemon_ = ::fork();
    if (daemon_ == 0) {
      ::signal(SIGHUP, [](int) { (void)!::write(g_hangup[1], "h", 1); });
      FakeDocker(listener_.get(), options_.config, std::move(faults)).Run();
    }
    ASSERT_GT(daemon_, 0);
    ASSERT_TRUE(AskDocker(options_.socket, "/_ping", {}, Soon()));
  }
  static base::Deadline Soon() { return base::Deadline::After(test_support::kPatience); }
  [[nodiscard]] base::Status Configure() const {
    TRY_ASSIGN(const auto source, ReadEngineConfig(options_));
    return ConfigureEngine(options_, source, "/t", folder_.path() / "state", {});
  }
  [[nodiscard]] Json Info() const {
    const auto answer = AskDocker(options_.socket, "/info", {}, Soon());
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? codec::ParseJson(answer->body).value_or(Json::object()) : Json::object();
  }
  [[nodiscard]] std::string Text() const {
    return base::ReadFile(options_.config).value_or("(none)");
  }

  test_support::TemporaryFolder folder_;
  EngineOptions options_;
  base::FileDescriptor listener_;
  pid_t daemon_ = -1;
  sighandler_t old_ = SIG_DFL;
};

TEST_F(DockerTest, TheOneThatAnswersReloadsAndNotTheOneThatListens) {
  Start();
  EXPECT_EQ(AskDocker(options_.socket, "/info", {}, Soon())->pid, daemon_);
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_EQ(g_listener_hangups, 0);
  const auto info = Info();
  EXPECT_EQ(info.at("Reloads"), 1);
  EXPECT_EQ(codec::FindString(info, {"Runtimes", "nvidia", "path"}), "/t/nvidia-container-runtime");
  EXPECT_EQ(info.at("DefaultRuntime"), "nvidia");
  EXPECT_FALSE(fs::exists(folder_.path() / "state/engine-change.json"));
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Info().at("Reloads"), 1) << "nothing has changed";

  ASSERT_TRUE(RestoreEngine(options_, "/t", folder_.path() / "state"));
  EXPECT_EQ(Info().at("Reloads"), 2);
  EXPECT_FALSE(Info().at("Runtimes").contains("nvidia"));
}

// What is written and not read is worse than either: however it was killed, the next toolkit leaves
// the engine with what its file says.
TEST_F(DockerTest, KilledAtAnyStepTheEngineHasReadWhatIsThere) {
  Start();
  const auto has_ours = [&] { return Info().at("Runtimes").contains("nvidia"); };
  for (const bool leaves : {false, true}) {
    int steps = 1;
    for (bool killed = true; killed; ++steps) {
      fs::remove_all(folder_.path() / "state");
      folder_.Write("state/empty", "");
      folder_.Write("etc/daemon.json", kDockerSite);
      ASSERT_TRUE(ReloadDocker(options_, {}, Soon()));
      ASSERT_FALSE(has_ours());
      if (leaves) {
        ASSERT_TRUE(Configure());
        ASSERT_TRUE(has_ours());
      }
      const auto restore = [&] { return RestoreEngine(options_, "/t", folder_.path() / "state"); };
      killed = test_support::KillAtChange(steps, [&] { (void)(leaves ? restore() : Configure()); });
      ASSERT_TRUE(leaves ? restore() : Configure()) << "step " << steps;
      EXPECT_EQ(has_ours(), !leaves) << "step " << steps;
    }
    EXPECT_GT(steps, 5);
  }
}

TEST_F(DockerTest, WhatItDoesNotTakeIsPutBack) {
  RecordProperty("holds", "runtimes-and-distributions.md #23");
  Start({.keeps_runtimes = true});
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "EngineConfigNotEffective");
  EXPECT_THAT(configured.error().message, HasSubstr("nvidia"));
  EXPECT_EQ(Text(), kDockerSite);
  EXPECT_EQ(Info().at("Reloads"), 2);
  EXPECT_FALSE(fs::exists(folder_.path() / "state/engine-change.json"));
}

// A file that contradicts its command line, for example: the reason stands in its log alone.
TEST_F(DockerTest, OneThatDoesNotSayThatItHasReadItIsPutBack) {
  Start({.says_nothing = true});
  options_.restart_time = std::chrono::seconds(1);
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().code, base::Code::kTimeout);
  EXPECT_EQ(Text(), kDockerSite);
}

// A proxy, or another engine.
TEST_F(DockerTest, AnotherProgramGetsNoSignal) {
  Start({.name = "haproxy"});
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "NotTheEngine");
  EXPECT_THAT(configured.error().message, HasSubstr("haproxy"));
  EXPECT_EQ(Text(), kDockerSite);
  EXPECT_EQ(Info().at("Reloads"), 0);
  EXPECT_EQ(g_listener_hangups, 0);
}

// It tells who it is in any answer; what it does not tell is not known to be wrong.
TEST_F(DockerTest, OneThatRefusesToTellIsReloaded) {
  Start({.refuses = true});
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_NE(Text(), kDockerSite);
}

TEST_F(DockerTest, OneThatIsDownReadsTheFileWhenItComes) {
  EXPECT_TRUE(ReloadDocker(options_, {}, Soon()));
  EXPECT_TRUE(CheckRunning(options_, RuntimesFor(options_, "/t"), {}, Soon()));
}

TEST_F(DockerTest, AStopEndsTheWait) {
  Start({.says_nothing = true});
  const io::StopSource source;
  source.Stop();
  const auto stopped = ReloadDocker(options_, source.token(), Soon());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, base::Code::kCancelled);
}

TEST(DockerInfo, ProgramsAndTheDefaultCount) {
  EngineOptions options;
  options.kind = EngineKind::kDocker;
  const std::vector<Runtime> runtimes = {{"nvidia", "/t/r", true}, {"nvidia-cdi", "/t/r.cdi"}};
  Json info = {
      {"DefaultRuntime", "nvidia"},
      {"Runtimes", {{"nvidia", {{"path", "/t/r"}}}, {"nvidia-cdi", {{"path", "/t/r.cdi"}}}}}};
  EXPECT_TRUE(CheckDockerInfo(options, runtimes, info));
  info["DefaultRuntime"] = "runc";
  EXPECT_FALSE(CheckDockerInfo(options, runtimes, info));
  EXPECT_TRUE(CheckDockerInfo(options, {{"nvidia", "/t/r"}}, info));
  info["Runtimes"]["nvidia"]["path"] = "/other";
  const auto other = CheckDockerInfo(options, {{"nvidia", "/t/r"}}, info);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("\"/other\" and not \"/t/r\""));
  EXPECT_FALSE(CheckDockerInfo(options, runtimes, Json::object()));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

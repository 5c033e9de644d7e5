#include "node/toolkit/engine_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "host/driver_root.h"
#include "host/process.h"
#include "io/file_watcher.h"
#include "io/unix_socket.h"
#include "node/toolkit/docker.h"
#include "node/toolkit/engine_command.h"
#include "node/toolkit/engine_signal.h"
#include "rpc/container_runtime.h"
#include "systemd/manager.h"

namespace pitcrew::node::toolkit {
namespace {

using namespace std::chrono_literals;

constexpr auto kDumpTime = 30s;
constexpr std::size_t kMostConfig = 16U << 20;
// A client's greeting and an empty SETTINGS frame (RFC 9113, section 3.4).
constexpr std::string_view kHttp2Greeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr std::size_t kFrameHeader = 9;
constexpr char kSettingsFrame = 4;

base::Error DidNotComeBack(const base::Error& why) {
  return {base::Code::kTimeout, "EngineDidNotComeBack",
          "the container engine does not answer: " + why.message};
}

// A sandbox that the kubelet asks for between containerd's greeting and this moment fails.
base::Status WaitUntilItTakesPods(const std::filesystem::path& socket, const io::StopToken& stop,
                                  base::SteadyClock::time_point deadline) {
  const auto status = rpc::WaitForContainerRuntime(socket, stop, deadline);
  if (status) return {};
  if (status.error().code == base::Code::kTimeout) {
    return base::Fail(DidNotComeBack(status.error()));
  }
  if (status.error().code == base::Code::kCancelled) return base::Fail(status.error());
  base::LogInfo("The container engine does not tell whether it takes pods",
                {{"why", status.error().message}});
  return {};
}

base::Error NoEngine(int error_number, const std::filesystem::path& socket) {
  return base::FromErrno(error_number, "connect to the container engine at " + socket.string());
}

int MillisecondsUntil(base::SteadyClock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - base::SteadyClock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

base::Status ReadGreeting(int fd, const std::filesystem::path& socket,
                          base::SteadyClock::time_point deadline) {
  std::array<char, kFrameHeader> frame;
  std::size_t have = 0;
  while (have < frame.size()) {
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = ::poll(&poll_fd, 1, MillisecondsUntil(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return base::Fail(NoEngine(errno, socket));
    if (ready == 0) return base::Fail(NoEngine(ETIMEDOUT, socket));
    const ssize_t count = ::read(fd, frame.data() + have, frame.size() - have);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return base::Fail(NoEngine(ECONNREFUSED, socket));
    have += static_cast<std::size_t>(count);
  }
  if (frame[3] == kSettingsFrame) return {};
  return base::Fail(base::Invalid("NotAContainerEngine",
                                  socket.string() + " is not the socket of a container engine"));
}

// Waits until the process at the other end of a connection closes it; what it says is passed over.
base::Status WaitForClose(int connection, const io::StopToken& stop,
                          base::SteadyClock::time_point deadline) {
  std::array<char, 4096> ignored;
  for (;;) {
    const ssize_t count = ::read(connection, ignored.data(), ignored.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return {};
    if (count < 0 && errno == EAGAIN) TRY(io::WaitReadable({connection}, stop, deadline));
  }
}

// The same without a pidfd. An engine closes connections that say nothing for minutes: whether it
// is still the same process is asked on a new one.
base::Status WaitForAnotherProcess(const EngineProcess& engine, const EngineOptions& options,
                                   const io::StopToken& stop,
                                   base::SteadyClock::time_point deadline) {
  base::FileDescriptor next;
  int connection = engine.connection.get();
  for (;;) {
    TRY(WaitForClose(connection, stop, deadline));
    auto now = FindEngine(options.socket);
    if (!now || now->pid != engine.pid) return {};
    next = std::move(now->connection);
    connection = next.get();
  }
}

base::Status WaitForExit(const EngineProcess& engine, const EngineOptions& options,
                         const io::StopToken& stop, base::SteadyClock::time_point deadline) {
  base::Status ended;
  if (!engine.handle.valid()) {
    ended = WaitForAnotherProcess(engine, options, stop, deadline);
  } else if (const auto ready = io::WaitReadable({engine.handle.get()}, stop, deadline); !ready) {
    ended = base::Fail(ready.error());
  }
  if (ended) return {};
  if (ended.error().code != base::Code::kTimeout) return base::Fail(ended.error());
  return base::Fail(base::Error{
      base::Code::kTimeout, "EngineDidNotRestart",
      fmt::format("containerd (pid {}) got SIGHUP and is still the same process", engine.pid)});
}

base::Status SignalEngine(const EngineOptions& options, const io::StopToken& stop,
                          base::SteadyClock::time_point deadline) {
  // It reads its file again and stays; containerd ends, and its supervisor starts it anew.
  if (options.kind == EngineKind::kDocker) return ReloadDocker(options, stop, deadline);
  auto engine = FindEngine(options.socket);
  if (!engine) {
    const auto code = engine.error().code;
    // An engine that is not up now reads the new configuration when it comes.
    if (code == base::Code::kNotFound || code == base::Code::kUnavailable) return {};
    return base::Fail(engine.error());
  }
  TRY(HangUp(options.kind, engine->pid, engine->handle));
  return WaitForExit(*engine, options, stop, deadline);
}

// A program of the host that gets nothing of this container.
host::ProgramRun InHost(const EngineOptions& options) {
  host::ProgramRun run;
  run.inherit_environment = false;
  if (!options.host_root.empty() && options.host_root != "/") run.root = options.host_root;
  return run;
}

base::Status RestartThroughSystemd(const EngineOptions& options, const io::StopToken& stop,
                                   base::SteadyClock::time_point deadline) {
  const auto socket = host::Root(options.host_root).At(systemd::kSystemBusSocket);
  auto manager = systemd::Manager::Connect(socket);
  if (!manager && manager.error().code == base::Code::kNotFound) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "NoSystemd",
        fmt::format("{} cannot be restarted through systemd: {}; where the node has none, set "
                    "RUNTIME_RESTART_MODE to none and restart it yourself",
                    ToString(options.kind), manager.error().message)});
  }
  if (!manager) return base::Fail(manager.error());
  const auto unit = options.distribution.unit.empty()
                        ? fmt::format("{}.service", ToString(options.kind))
                        : options.distribution.unit;
  base::LogInfo("Restarting the container engine through systemd",
                {{"engine", ToString(options.kind)}, {"unit", unit}});
  return manager->Restart(unit, stop, deadline);
}

// A run of the engine's program, and the file that it executes when that was found by the process.
struct EngineProgram {
  host::ProgramRun run;
  base::FileDescriptor executable;
};

// The program that runs now, in the root that it has: right even where the engine lies at a path
// that nobody would guess.
base::Result<EngineProgram> RunningProgram(const EngineOptions& options) {
  TRY_ASSIGN(const auto engine, FindEngine(options.socket));
  const std::string link = fmt::format("/proc/{}/exe", engine.pid);
  std::error_code problem;
  const auto target = std::filesystem::read_symlink(link, problem);
  if (problem) return base::Fail(base::FromErrno(problem.value(), "read " + link));
  if (!target.filename().string().starts_with(ToString(options.kind))) {
    return base::Fail(base::NotFound(
        "UnknownEngineProgram",
        fmt::format("{} is served by {}", options.socket.string(), target.string())));
  }
  EngineProgram found{InHost(options),
                      base::FileDescriptor(::open(link.c_str(), O_PATH | O_CLOEXEC))};
  if (!found.executable.valid()) return base::Fail(base::FromErrno(errno, "open " + link));
  found.run.root = fmt::format("/proc/{}/root", engine.pid);
  found.run.program = target.string();
  found.run.executable = found.executable.get();
  const auto words = CommandLineOf("/proc", engine.pid);
  if (const auto config = OptionOf(words, {"--config", "-c", "-config"}); !config.empty()) {
    found.run.arguments = {"--config", config};
  }
  return found;
}

base::Result<EngineProgram> FindEngineProgram(const EngineOptions& options) {
  EngineProgram found{InHost(options), {}};
  if (!options.executable.empty()) {
    found.run.program = options.executable;
    return found;
  }
  if (options.kind == EngineKind::kContainerd) {
    if (auto running = RunningProgram(options)) return running;
  }
  TRY_ASSIGN(const auto program,
             host::FindStandardProgram(host::Root(options.host_root), ToString(options.kind)));
  found.run.program = program.string();
  return found;
}

// Beside a crio that somebody named, else where programs are.
base::Result<std::filesystem::path> FindCrioStatus(const EngineOptions& options) {
  const host::Root node(options.host_root.empty() ? "/" : options.host_root);
  if (!options.executable.empty()) {
    const auto beside = std::filesystem::path(options.executable).parent_path() / "crio-status";
    if (node.Resolve(beside.string())) return beside;
  }
  return host::FindStandardProgram(node, "crio-status");
}

base::Result<std::string> Dump(host::ProgramRun run, const std::vector<std::string>& command) {
  run.arguments.insert(run.arguments.end(), command.begin(), command.end());
  run.most_output = kMostConfig;
  run.deadline = base::SteadyClock::now() + kDumpTime;
  return host::ReadProgramOutput(std::move(run));
}

}  // namespace

base::Result<EngineProcess> FindEngine(const std::filesystem::path& socket) {
  EngineProcess engine;
  TRY_ASSIGN(engine.connection, io::ConnectUnix(socket));
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(engine.connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return base::Fail(NoEngine(errno, socket));
  }
  if (peer.pid <= 0) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "EngineNotVisible",
        fmt::format(
            "the process behind {} is not in this pid namespace: the pod needs hostPID: true",
            socket.string())});
  }
  engine.pid = peer.pid;
  // Gone between the two calls: as if nobody listened.
  TRY_ASSIGN(engine.handle, OpenProcess(peer.pid));
  return engine;
}

base::Status ProbeEngine(EngineKind kind, const std::filesystem::path& socket,
                         const io::StopToken& stop, base::SteadyClock::time_point deadline) {
  if (kind == EngineKind::kDocker) {
    // A connection says nothing: systemd takes it, where docker.socket is used.
    TRY(AskDocker(socket, "/_ping", stop, deadline));
    return {};
  }
  TRY_ASSIGN(const auto connection, io::ConnectUnix(socket));
  if (::send(connection.get(), kHttp2Greeting.data(), kHttp2Greeting.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(kHttp2Greeting.size())) {
    return base::Fail(NoEngine(ECONNREFUSED, socket));
  }
  return ReadGreeting(connection.get(), socket, deadline);
}

base::Status WaitForEngine(EngineKind kind, const std::filesystem::path& socket,
                           const io::StopToken& stop, base::SteadyClock::time_point deadline) {
  base::Error last = NoEngine(ENOENT, socket);
  const auto waited = io::WaitForFiles(
      {socket.parent_path()},
      [&]() -> base::Result<bool> {
        const auto answer = ProbeEngine(kind, socket, stop, deadline);
        if (answer) return true;
        last = answer.error();
        const bool may_come =
            last.code == base::Code::kNotFound || last.code == base::Code::kUnavailable;
        if (!may_come) return base::Fail(last);
        return false;
      },
      stop, deadline);
  if (!waited && waited.error().code == base::Code::kTimeout) {
    return base::Fail(DidNotComeBack(last));
  }
  TRY(waited);
  return kind == EngineKind::kDocker ? base::Status()
                                     : WaitUntilItTakesPods(socket, stop, deadline);
}

base::Status RestartEngine(const EngineOptions& options, const io::StopToken& stop,
                           base::SteadyClock::time_point deadline) {
  // CRI-O's is seen only where the node's root is mounted.
  std::error_code ignored;
  const bool seen =
      options.kind != EngineKind::kCrio || std::filesystem::exists(options.socket, ignored);
  switch (options.restart) {
    case RestartMode::kNone:
      base::LogWarning(
          "The container engine must be restarted by hand to read its new configuration",
          {{"engine", ToString(options.kind)}});
      return {};
    case RestartMode::kSystemd:
      TRY(RestartThroughSystemd(options, stop, deadline));
      break;
    case RestartMode::kSignal:
      TRY(SignalEngine(options, stop, deadline));
      break;
    case RestartMode::kByDistribution:
      break;
  }
  if (!seen) return {};
  return WaitForEngine(options.kind, options.socket, stop, deadline);
}

base::Status AwaitNextEngine(const EngineOptions& options, const EngineProcess& before,
                             const io::StopToken& stop, base::SteadyClock::time_point deadline) {
  base::LogInfo("Waiting for the distribution to restart its container engine",
                {{"distribution", ToString(options.distribution.name)}, {"pid", before.pid}});
  const auto ended = WaitForExit(before, options, stop, deadline);
  if (!ended && ended.error().code == base::Code::kTimeout) {
    return base::Fail(base::Error{
        base::Code::kTimeout, "EngineDidNotRestart",
        fmt::format("{} has not restarted its containerd (pid {}) for {}",
                    ToString(options.distribution.name), before.pid, options.drop_in.string())});
  }
  TRY(ended);
  return WaitForEngine(options.kind, options.socket, stop, deadline);
}

base::Result<std::string> DumpEngineConfig(const EngineOptions& options) {
  TRY_ASSIGN(auto program, FindEngineProgram(options));
  if (options.kind != EngineKind::kCrio) return Dump(std::move(program.run), {"config", "dump"});
  auto dump = Dump(program.run, {"status", "config"});
  if (dump || dump.error().reason != "ProgramFailed") return dump;
  // Before 1.28 this was a program of its own.
  const auto older = FindCrioStatus(options);
  if (!older) return dump;
  host::ProgramRun run = InHost(options);
  run.program = older->string();
  return Dump(std::move(run), {"config"});
}

}  // namespace pitcrew::node::toolkit

#include "simulation/mps/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <list>
#include <optional>
#include <string_view>
#include <vector>

#include "simulation/mps/control.h"
#include "simulation/state/discovery.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

// Where CDI and the driver's own root have the libraries beside which the state is found.
constexpr const char* kLibrary = "/usr/lib/x86_64-linux-gnu/libcuda.so.1";

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

std::optional<sockaddr_un> AddressOf(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof(address.sun_path)) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.native().size() + 1);
  return address;
}

bool SendAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

int Complain(const std::string& what) {
  std::cerr << "nvidia-cuda-mps-control: " << what << ": " << std::strerror(errno) << "\n";
  return 1;
}

// control.log, as the real daemon writes it: time, who, text.
class Log {
 public:
  explicit Log(const fs::path& path) : file_(path, std::ios::app) {}
  void Write(const std::string& text) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm parts{};
    ::localtime_r(&now.tv_sec, &parts);
    char stamp[64];
    const auto length = std::strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &parts);
    std::snprintf(stamp + length, sizeof(stamp) - length, ".%03ld", now.tv_nsec / 1'000'000);
    file_ << "[" << stamp << " Control " << ::getpid() << "] " << text << std::endl;
  }

 private:
  std::ofstream file_;
};

std::vector<std::string> GpuUuids() {
  std::vector<std::string> uuids;
  const auto file = StateFile::Open(FindStateFile(kLibrary));
  if (!file) return uuids;
  const auto node = (*file)->Snapshot();
  for (std::uint32_t i = 0; i < node->gpu_count; ++i) uuids.emplace_back(node->gpus[i].uuid);
  return uuids;
}

struct Connection {
  explicit Connection(int fd) : socket(fd) {}
  Socket socket;
  std::string input;  // of a line that is not complete
  std::optional<std::uint32_t> client;
};

class Server {
 public:
  Server(const MpsFolders& folders, int listener, int signals)
      : log_(folders.log / "control.log"),
        control_(GpuUuids(), static_cast<std::uint32_t>(::getpid())),
        listener_(listener),
        signals_(signals) {
    log_.Write("Starting control daemon using socket " + (folders.pipe / "control").string());
    log_.Write("To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=" +
               folders.pipe.string());
  }

  void Run() {
    while (!ended_ && !(quitting_ && !control_.HasClients())) {
      std::vector<pollfd> waited = {{listener_, POLLIN, 0}, {signals_, POLLIN, 0}};
      for (const auto& one : connections_) waited.push_back({one.socket.get(), POLLIN, 0});
      if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) break;
      if (waited[1].revents != 0) ended_ = true;
      std::size_t i = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++i) {
        const bool keep = waited[i].revents == 0 || Read(*it);
        it = keep ? std::next(it) : connections_.erase(it);
      }
      if (waited[0].revents != 0) Accept();
    }
    log_.Write("Exit");
  }

 private:
  void Accept() {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) connections_.emplace_back(fd);
  }

  // False when the connection is at its end.
  bool Read(Connection& connection) {
    char buffer[4096];
    const auto length = ::recv(connection.socket.get(), buffer, sizeof(buffer), 0);
    if (length < 0 && errno == EINTR) return true;
    if (length <= 0) {
      if (connection.client) Detach(*connection.client);
      return false;
    }
    connection.input.append(buffer, static_cast<std::size_t>(length));
    for (auto end = connection.input.find('\n'); end != std::string::npos;
         end = connection.input.find('\n')) {
      const std::string line = connection.input.substr(0, end);
      connection.input.erase(0, end + 1);
      if (!SendAll(connection.socket.get(), Answer(connection, line))) return false;
    }
    return true;
  }

  std::string Answer(Connection& connection, const std::string& line) {
    const std::string end = std::string(kMpsEndOfAnswer) + "\n";
    if (line.starts_with(kMpsClientHello)) {
      const auto pid = static_cast<std::uint32_t>(
          std::strtoul(line.c_str() + kMpsClientHello.size(), nullptr, 10));
      connection.client = pid;
      log_.Write("Accepting connection from client process " + std::to_string(pid));
      return control_.Attach(pid).ToText() + "\n" + end;
    }
    log_.Write("Command: " + line);
    const auto answer = control_.Handle(line);
    quitting_ = quitting_ || answer.quit;
    std::string text = answer.failed ? "!" : "";
    text += answer.text;
    return text.empty() ? end : text + "\n" + end;
  }

  void Detach(std::uint32_t pid) {
    control_.Detach(pid);
    log_.Write("Client process " + std::to_string(pid) + " has ended");
  }

  Log log_;
  MpsControl control_;
  int listener_;
  int signals_;
  std::list<Connection> connections_;
  bool quitting_ = false;
  bool ended_ = false;
};

int SignalFd() {
  sigset_t set;
  sigemptyset(&set);
  for (const int one : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, one);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return ::signalfd(-1, &set, SFD_CLOEXEC);
}

}  // namespace

MpsFolders FindMpsFolders() {
  const char* log = std::getenv(kMpsLogVariable);
  return {MpsPipeFolder(), log != nullptr && *log != 0 ? log : kMpsLogFolder};
}

int RunMpsDaemon(const MpsFolders& folders, int ready_fd) {
  std::error_code error;
  fs::create_directories(folders.pipe, error);
  fs::create_directories(folders.log, error);
  const fs::path lock_path = folders.pipe / "control_lock";
  const Socket lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.get() < 0) return Complain("open " + lock_path.string());
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    std::cerr << "An instance of this daemon is already running\n";
    return 1;
  }
  const fs::path path = folders.pipe / "control";
  const auto address = AddressOf(path);
  if (!address) {
    errno = ENAMETOOLONG;
    return Complain(path.string());
  }
  fs::remove(path, error);  // of a daemon that was killed: the lock is ours
  const Socket listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int signals = SignalFd();
  if (listener.get() < 0 || signals < 0) return Complain("make a socket");
  const auto* generic = reinterpret_cast<const sockaddr*>(&*address);
  if (::bind(listener.get(), generic, sizeof(*address)) != 0 || ::listen(listener.get(), 64) != 0) {
    return Complain("listen on " + path.string());
  }
  // Clients run as any user.
  ::chmod(path.c_str(), 0666);
  const fs::path pid_file = folders.pipe / "nvidia-cuda-mps-control.pid";
  std::ofstream(pid_file) << ::getpid() << "\n";
  if (ready_fd >= 0) {
    // From here on nobody reads what it says but in its log.
    if (const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC); null >= 0) {
      ::dup2(null, STDERR_FILENO);
      ::close(null);
    }
    (void)!::write(ready_fd, "1", 1);
    ::close(ready_fd);
  }
  Server(folders, listener.get(), signals).Run();
  fs::remove(path, error);
  fs::remove(pid_file, error);
  return 0;
}

int SendMpsCommands(const MpsFolders& folders) {
  const auto address = AddressOf(folders.pipe / "control");
  const Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool connected =
      address && socket.get() >= 0 &&
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0;
  if (!connected) {
    std::cerr << "Cannot find MPS control daemon process\n";
    return 1;
  }
  int exit_code = 0;
  std::string line;
  std::string input;
  while (std::getline(std::cin, line)) {
    if (!SendAll(socket.get(), line + "\n")) return Complain("talk to the daemon");
    while (true) {
      const auto end = input.find('\n');
      if (end == std::string::npos) {
        char buffer[4096];
        const auto length = ::recv(socket.get(), buffer, sizeof(buffer), 0);
        if (length <= 0) return Complain("talk to the daemon");
        input.append(buffer, static_cast<std::size_t>(length));
        continue;
      }
      const std::string answer = input.substr(0, end);
      input.erase(0, end + 1);
      if (answer == kMpsEndOfAnswer) break;
      const bool failed = answer.starts_with('!');
      (failed ? std::cerr : std::cout) << answer.substr(failed ? 1 : 0) << "\n";
      if (failed) exit_code = 1;
    }
  }
  return exit_code;
}

}  // namespace pitcrew::simulation

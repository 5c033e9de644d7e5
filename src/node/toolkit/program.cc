#include "node/toolkit/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "base/strings.h"
#include "host/driver_root.h"
#include "host/root.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr std::size_t kMostOutput = 16U << 20;
constexpr int kExecFailed = 127;
constexpr std::string_view kFolders[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                         "/usr/bin",        "/sbin",          "/bin"};
constexpr const char* kPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Pipe {
  base::FileDescriptor read;
  base::FileDescriptor write;
};

base::Result<Pipe> MakePipe() {
  std::array<int, 2> fds;
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return base::Fail(base::FromErrno(errno, "make a pipe"));
  return Pipe{base::FileDescriptor(fds[0]), base::FileDescriptor(fds[1])};
}

// In the child, between fork and exec: system calls only. Tells errno through `report`.
[[noreturn]] void BecomeProgram(const char* root, int executable, const char* path, char** argv,
                                int out, int err, int report) {
  char variable[128];
  char* const environment[] = {variable, nullptr};
  std::copy_n(kPath, std::char_traits<char>::length(kPath) + 1, variable);
  sigset_t no_signals;
  ::sigemptyset(&no_signals);
  ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool ready = null >= 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
               ::dup2(err, STDERR_FILENO) >= 0;
  ready = ready && (root == nullptr || (::chroot(root) == 0 && ::chdir("/") == 0));
  if (ready && executable >= 0) {
    ::syscall(SYS_execveat, executable, "", argv, environment, AT_EMPTY_PATH);
  } else if (ready) {
    ::execve(path, argv, environment);
  }
  const int problem = errno;
  [[maybe_unused]] const auto written = ::write(report, &problem, sizeof(problem));
  ::_exit(kExecFailed);
}

int MillisecondsUntil(base::SteadyClock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - base::SteadyClock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

// Reads both pipes to their ends; false at the deadline or when the output is too long.
bool Drain(Pipe& out, Pipe& err, std::string& output, std::string& problems,
           base::SteadyClock::time_point deadline) {
  std::array<pollfd, 2> polls = {{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&output, &problems};
  int open = 2;
  while (open > 0) {
    const int ready = ::poll(polls.data(), polls.size(), MillisecondsUntil(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents == 0) continue;
      std::array<char, 16384> buffer;
      const ssize_t count = ::read(polls[i].fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        polls[i].fd = -1;
        --open;
        continue;
      }
      texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      if (texts[i]->size() > kMostOutput) return false;
    }
  }
  return true;
}

std::string Tail(const std::string& text) {
  const std::string_view trimmed = base::Trim(text);
  constexpr std::size_t kLength = 600;
  return std::string(trimmed.size() > kLength ? trimmed.substr(trimmed.size() - kLength) : trimmed);
}

}  // namespace

base::Result<std::filesystem::path> FindHostProgram(const std::filesystem::path& root,
                                                    std::string_view name) {
  std::vector<std::string> paths;
  for (const auto folder : kFolders) paths.push_back(fmt::format("{}/{}", folder, name));
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  const host::Root host_root(root.empty() ? "/" : root);
  TRY_ASSIGN(const auto found, host::FirstProgram(host_root, views));
  return host_root.Strip(found);
}

base::Result<std::string> RunProgram(const Program& program,
                                     base::SteadyClock::time_point deadline) {
  const bool changes_root = !program.root.empty() && program.root != "/";
  const std::string what =
      program.path.empty() ? std::string("program") : program.path.filename().string();
  TRY_ASSIGN(Pipe out, MakePipe());
  TRY_ASSIGN(Pipe err, MakePipe());
  TRY_ASSIGN(Pipe report, MakePipe());
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path.empty() ? what : program.path.string());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = ::fork();
  if (child < 0) return base::Fail(base::FromErrno(errno, "start " + what));
  if (child == 0) {
    BecomeProgram(changes_root ? program.root.c_str() : nullptr, program.executable.get(),
                  program.path.c_str(), argv.data(), out.write.get(), err.write.get(),
                  report.write.get());
  }
  out.write.Close();
  err.write.Close();
  report.write.Close();
  std::string output;
  std::string problems;
  const bool complete = Drain(out, err, output, problems, deadline);
  if (!complete) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  int exec_errno = 0;
  if (::read(report.read.get(), &exec_errno, sizeof(exec_errno)) == sizeof(exec_errno)) {
    return base::Fail(base::FromErrno(exec_errno, "execute " + words.front()));
  }
  if (!complete) {
    return base::Fail(base::Error{base::Code::kTimeout, "ProgramTimedOut",
                                  fmt::format("{} did not end in time", words.front())});
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return base::Fail(base::Internal(
        "ProgramFailed",
        fmt::format("{} {} ended with {} {}: {}", words.front(), base::Join(program.arguments, " "),
                    WIFEXITED(status) ? "status" : "signal",
                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), Tail(problems))));
  }
  return output;
}

}  // namespace pitcrew::node::toolkit

#include "host/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>

#include "base/file_descriptor.h"

namespace pitcrew::host {
namespace {

using base::FileDescriptor;

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

base::Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return base::Fail(base::FromErrno(errno, "make a pipe"));
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Texts in the form that execve takes. Borrowed from `texts`.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> MakeEnvironment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) {
      environment.emplace_back(text);
    }
  }
  for (const auto& [name, value] : changes)
    environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

// Between fork and exec: only calls that are allowed after fork in a program with threads.
[[noreturn]] void Become(const ProgramRun& run, char* const* arguments, char* const* environment,
                         int output, int report) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool prepared =
      (!run.root || (::chroot(run.root->c_str()) == 0 && ::chdir("/") == 0)) &&
      (output < 0 || (::dup2(output, STDOUT_FILENO) >= 0 && ::dup2(output, STDERR_FILENO) >= 0));
  if (prepared) ::execve(run.program.c_str(), arguments, environment);
  const int error = errno;
  const ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(written == sizeof error ? 127 : 126);
}

int RemainingMilliseconds(const ProgramRun& run) {
  if (!run.deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*run.deadline -
                                                                 std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<long long>(left.count(), 0, INT_MAX));
}

// The child process. Killed and reaped when dropped before its end.
class Child {
 public:
  Child(pid_t pid, FileDescriptor pid_fd) : pid_(pid), pid_fd_(std::move(pid_fd)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    Reap();
  }
  [[nodiscard]] int fd() const { return pid_fd_.get(); }
  int Reap() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_;
  FileDescriptor pid_fd_;
};

base::Result<ProgramEnd> Await(const ProgramRun& run, Child& child, FileDescriptor output) {
  ProgramEnd end;
  std::array<char, 4096> buffer;
  while (true) {
    std::array<pollfd, 3> entries = {
        {{output.get(), POLLIN, 0}, {child.fd(), POLLIN, 0}, {run.stop_fd, POLLIN, 0}}};
    const int ready = ::poll(entries.data(), entries.size(), RemainingMilliseconds(run));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return base::Fail(base::FromErrno(errno, "wait for a program"));
    if (ready == 0) {
      return base::Fail(base::Error{base::Code::kTimeout, "ProgramTimeout",
                                    fmt::format("{} did not end in time", run.program)});
    }
    if (entries[2].revents != 0) {
      return base::Fail(base::Error{base::Code::kCancelled, "Stopped",
                                    fmt::format("stopped while {} ran", run.program)});
    }
    if (entries[0].revents != 0) {
      const ssize_t size = ::read(output.get(), buffer.data(), buffer.size());
      if (size > 0) {
        end.output.append(buffer.data(), static_cast<std::size_t>(size));
        continue;  // everything that is there before the end counts
      }
      output.Close();
    }
    if (entries[1].revents != 0) {
      end.exit_status = child.Reap();
      return end;
    }
  }
}

}  // namespace

base::Result<ProgramEnd> RunProgram(const ProgramRun& run) {
  TRY_ASSIGN(auto report, MakePipe());
  Pipe output;
  if (run.capture_output) {
    TRY_ASSIGN(output, MakePipe());
  }
  std::vector<std::string> words = {run.program};
  words.insert(words.end(), run.arguments.begin(), run.arguments.end());
  auto environment = MakeEnvironment(run.environment);
  const auto argument_pointers = Pointers(words);
  const auto environment_pointers = Pointers(environment);

  const pid_t pid = ::fork();
  if (pid < 0) return base::Fail(base::FromErrno(errno, fmt::format("start {}", run.program)));
  if (pid == 0) {
    Become(run, argument_pointers.data(), environment_pointers.data(), output.write.get(),
           report.write.get());
  }
  Child child(pid, FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  if (child.fd() < 0) return base::Fail(base::FromErrno(errno, "watch a program"));
  report.write.Close();
  output.write.Close();
  int error = 0;
  if (::read(report.read.get(), &error, sizeof error) == sizeof error) {
    const auto where = run.root ? fmt::format(" in {}", run.root->string()) : "";
    return base::Fail(base::FromErrno(error, fmt::format("start {}{}", run.program, where)));
  }
  return Await(run, child, std::move(output.read));
}

}  // namespace pitcrew::host

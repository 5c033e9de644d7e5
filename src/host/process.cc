#include "host/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "base/strings.h"
#include "host/driver_root.h"

namespace pitcrew::host {
namespace {

using base::ChildProcess;
using base::FileDescriptor;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostErrorOutput = 4096;
constexpr std::size_t kMostInput = PIPE_BUF;

struct Pipe {
  FileDescriptor read;  // never blocks
  FileDescriptor write;
};

base::Result<Pipe> MakePipe(bool blocking) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return base::Fail(base::FromErrno(errno, "make a pipe"));
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  if (!blocking && ::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return base::Fail(base::FromErrno(errno, "make a pipe"));
  }
  return pipe;
}

// Texts in the form that execve takes. Borrowed from `texts`.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> MakeEnvironment(const ProgramRun& run) {
  std::vector<std::string> environment;
  for (char** entry = ::environ; run.inherit_environment && entry != nullptr && *entry != nullptr;
       ++entry) {
    const std::string_view text(*entry);
    if (!run.environment.contains(std::string(text.substr(0, text.find('='))))) {
      environment.emplace_back(text);
    }
  }
  if (!run.inherit_environment && !run.environment.contains("PATH")) {
    environment.push_back(fmt::format("PATH={}", fmt::join(StandardProgramFolders(), ":")));
  }
  for (const auto& [name, value] : run.environment) {
    environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

struct Streams {
  FileDescriptor input;
  Pipe output;
  Pipe errors;
  Pipe report;  // errno of what failed before or in exec; closed by a successful exec
};

// What the program reads: nothing, or a pipe that holds the whole input already.
base::Result<FileDescriptor> MakeInput(const ProgramRun& run) {
  if (run.input.empty()) {
    FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return base::Fail(base::FromErrno(errno, "open /dev/null"));
    return null;
  }
  if (run.input.size() > kMostInput) {
    return base::Fail(base::Invalid(
        "ProgramInputTooLong", fmt::format("the input of {} has {} bytes; at most {} are possible",
                                           run.program, run.input.size(), kMostInput)));
  }
  TRY_ASSIGN(auto pipe, MakePipe(true));
  if (::write(pipe.write.get(), run.input.data(), run.input.size()) < 0) {
    return base::Fail(base::FromErrno(errno, "write a program's input"));
  }
  return std::move(pipe.read);
}

base::Result<Streams> MakeStreams(const ProgramRun& run) {
  Streams streams;
  TRY_ASSIGN(streams.input, MakeInput(run));
  TRY_ASSIGN(streams.report, MakePipe(true));
  if (!run.capture_output) return streams;
  TRY_ASSIGN(streams.output, MakePipe(false));
  TRY_ASSIGN(streams.errors, MakePipe(false));
  return streams;
}

// Between fork and exec: only calls that are allowed after fork in a program with threads.
[[noreturn]] void Become(const ProgramRun& run, char* const* arguments, char* const* environment,
                         const Streams& streams) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int output = streams.output.write.get();
  const int errors = streams.errors.write.get();
  const bool prepared =
      ::setpgid(0, 0) == 0 && ::dup2(streams.input.get(), STDIN_FILENO) >= 0 &&
      (output < 0 || (::dup2(output, STDOUT_FILENO) >= 0 && ::dup2(errors, STDERR_FILENO) >= 0)) &&
      (!run.root || (::chroot(run.root->c_str()) == 0 && ::chdir("/") == 0)) &&
      (run.working_folder.empty() || ::chdir(run.working_folder.c_str()) == 0);
  if (prepared && run.executable >= 0) {
    ::syscall(SYS_execveat, run.executable, "", arguments, environment, AT_EMPTY_PATH);
  } else if (prepared) {
    ::execve(run.program.c_str(), arguments, environment);
  }
  const int error = errno;
  const ssize_t written = ::write(streams.report.write.get(), &error, sizeof error);
  ::_exit(written == sizeof error ? 127 : 126);
}

// fork, because posix_spawn can neither change the root nor execute an open file.
base::Result<ChildProcess> Start(const ProgramRun& run, Streams& streams) {
  std::vector<std::string> words = {run.program};
  words.insert(words.end(), run.arguments.begin(), run.arguments.end());
  auto environment = MakeEnvironment(run);
  const auto argument_pointers = Pointers(words);
  const auto environment_pointers = Pointers(environment);
  const pid_t pid = ::fork();
  if (pid < 0) return base::Fail(base::FromErrno(errno, fmt::format("start {}", run.program)));
  if (pid == 0) Become(run, argument_pointers.data(), environment_pointers.data(), streams);
  TRY_ASSIGN(auto child, ChildProcess::Watch(pid, base::KillScope::kGroup));
  streams.report.write.Close();
  streams.output.write.Close();
  streams.errors.write.Close();
  int error = 0;
  if (::read(streams.report.read.get(), &error, sizeof error) == sizeof error) {
    const auto where = run.root ? fmt::format(" in {}", run.root->string()) : "";
    return base::Fail(base::FromErrno(error, fmt::format("start {}{}", run.program, where)));
  }
  return child;
}

int RemainingMilliseconds(const ProgramRun& run) {
  if (!run.deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*run.deadline - Clock::now());
  return static_cast<int>(std::clamp<long long>(left.count(), 0, INT_MAX));
}

// One read of what is there; false when there is nothing more to read now. Closes a pipe at its
// end.
bool ReadSome(FileDescriptor& pipe, std::string& text) {
  std::array<char, 16384> buffer;
  const ssize_t count = pipe.valid() ? ::read(pipe.get(), buffer.data(), buffer.size()) : 0;
  if (count > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }
  if (count < 0 && errno == EINTR) return true;
  if (count == 0 || errno != EAGAIN) pipe.Close();
  return false;
}

class Wait {
 public:
  Wait(const ProgramRun& run, ChildProcess& child, Streams& streams)
      : run_(run),
        child_(child),
        output_(std::move(streams.output.read)),
        errors_(std::move(streams.errors.read)) {}

  base::Result<ProgramEnd> Run() {
    while (true) {
      std::array<pollfd, 4> entries = {{{output_.get(), POLLIN, 0},
                                        {errors_.get(), POLLIN, 0},
                                        {child_.fd(), POLLIN, 0},
                                        {run_.stop_fd, POLLIN, 0}}};
      const int ready = ::poll(entries.data(), entries.size(), RemainingMilliseconds(run_));
      if (ready < 0 && errno != EINTR) {
        return base::Fail(base::FromErrno(errno, "wait for a program"));
      }
      if (ready > 0 && entries[3].revents != 0) {
        return base::Fail(base::Error{base::Code::kCancelled, "Stopped",
                                      fmt::format("stopped while {} ran", run_.program)});
      }
      // A program that has ended has ended in time, however late this is noticed.
      const bool ended = ready > 0 && entries[2].revents != 0;
      if (ready > 0) TRY(Take(ended));
      if (ended) {
        end_.exit_status = base::ShellStatus(child_.Reap());
        return std::move(end_);
      }
      // Looked at in every round: output that never pauses is no reason to wait on.
      if (run_.deadline && Clock::now() >= *run_.deadline) {
        return base::Fail(base::Error{base::Code::kTimeout, "ProgramTimeout",
                                      fmt::format("{} did not end in time", run_.program)});
      }
    }
  }

 private:
  // `all`: what the program wrote before its end counts.
  base::Status Take(bool all) {
    bool more = true;
    while (more) {
      more = ReadSome(errors_, end_.error_output);
      if (end_.error_output.size() > 2 * kMostErrorOutput) {
        end_.error_output.erase(0, end_.error_output.size() - kMostErrorOutput);
      }
      more = ReadSome(output_, end_.output) || more;
      if (end_.output.size() > run_.most_output) {
        return base::Fail(base::Internal(
            "ProgramOutputTooLong",
            fmt::format("{} wrote more than {} bytes", run_.program, run_.most_output)));
      }
      more = more && all && !IsOver();
    }
    return {};
  }
  // A process that the program left behind may write for ever.
  [[nodiscard]] bool IsOver() const { return run_.deadline && Clock::now() >= *run_.deadline; }

  const ProgramRun& run_;
  ChildProcess& child_;
  FileDescriptor output_;
  FileDescriptor errors_;
  ProgramEnd end_;
};

std::string_view Tail(std::string_view text) {
  constexpr std::size_t kLength = 600;
  text = base::Trim(text);
  return text.size() > kLength ? text.substr(text.size() - kLength) : text;
}

}  // namespace

base::Result<ProgramEnd> RunProgram(const ProgramRun& run) {
  TRY_ASSIGN(auto streams, MakeStreams(run));
  TRY_ASSIGN(auto child, Start(run, streams));
  return Wait(run, child, streams).Run();
}

base::Result<std::string> ReadProgramOutput(ProgramRun run) {
  run.capture_output = true;
  TRY_ASSIGN(auto end, RunProgram(run));
  if (end.exit_status == 0) return std::move(end.output);
  return base::Fail(base::Internal(
      "ProgramFailed",
      fmt::format("{} {} ended with status {}: {}", run.program, fmt::join(run.arguments, " "),
                  end.exit_status, Tail(end.error_output))));
}

base::Result<std::filesystem::path> FindProgramInPath(std::string_view name) {
  const char* variable = std::getenv("PATH");
  const std::string folders = variable != nullptr ? variable : "";
  for (const auto& folder : base::Split(folders, ':')) {
    auto path = std::filesystem::path(folder) / name;
    // An empty entry means the current folder to a shell; nothing is started from there.
    if (path.is_absolute() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return base::Fail(base::NotFound(
      "ProgramNotFound", fmt::format("there is no program {} in PATH ({})", name, folders)));
}

base::Result<std::filesystem::path> FindStandardProgram(const Root& root, std::string_view name) {
  std::vector<std::string> paths;
  for (const auto folder : StandardProgramFolders())
    paths.push_back(fmt::format("{}/{}", folder, name));
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  TRY_ASSIGN(const auto found, FirstProgram(root, views));
  return root.Strip(found);
}

}  // namespace pitcrew::host

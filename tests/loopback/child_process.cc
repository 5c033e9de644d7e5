#include "loopback/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/strings.h"

namespace pitcrew::testing {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsProgram(const std::filesystem::path& path) { return ::access(path.c_str(), X_OK) == 0; }

std::filesystem::path CacheFolder() {
  if (const auto cache = Environment("PITCREW_CACHE"); !cache.empty()) return cache;
  if (const auto cache = Environment("XDG_CACHE_HOME"); !cache.empty()) {
    return std::filesystem::path(cache) / "pitcrew";
  }
  return std::filesystem::path(Environment("HOME")) / ".cache" / "pitcrew";
}

}  // namespace

std::filesystem::path ProgramsFolder() { return CacheFolder() / "programs"; }

base::Result<std::filesystem::path> FindProgram(const std::string& name) {
  std::vector<std::filesystem::path> folders;
  if (const auto own = Environment("PITCREW_PROGRAMS"); !own.empty()) folders.emplace_back(own);
  for (const auto& folder : base::SplitTrimmed(Environment("PATH"), ':')) {
    folders.emplace_back(folder);
  }
  const auto programs = ProgramsFolder();
  std::vector<std::filesystem::path> cached;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(programs, ignored)) {
    cached.push_back(entry.path());
  }
  std::sort(cached.rbegin(), cached.rend());
  folders.insert(folders.end(), cached.begin(), cached.end());
  for (const auto& folder : folders) {
    if (IsProgram(folder / name)) return folder / name;
  }
  return base::Fail(base::NotFound(
      "ProgramMissing",
      fmt::format("{} is neither in $PITCREW_PROGRAMS, nor in PATH, nor below {}; build it with "
                  "\"make programs\" or name its folder in PITCREW_PROGRAMS",
                  name, programs.string())));
}

base::Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::filesystem::path& program, const std::vector<std::string>& arguments,
    const std::filesystem::path& log) {
  std::vector<std::string> texts{program.string()};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  const base::FileDescriptor output(
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!output.valid()) return base::Fail(base::FromErrno(errno, "open " + log.string()));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return base::Fail(base::FromErrno(errno, "fork"));
  if (pid == 0) {
    // Only async-signal-safe calls from here: other threads may have held any lock.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(output.get(), STDOUT_FILENO);
    ::dup2(output.get(), STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execv(program.c_str(), pointers.data());
    ::_exit(127);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, log));
}

ChildProcess::~ChildProcess() { Kill(); }

bool ChildProcess::running() {
  if (pid_ <= 0) return false;
  if (::waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = 0;
  return false;
}

void ChildProcess::End(int signal_number) {
  if (pid_ <= 0) return;
  ::kill(pid_, signal_number);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

void ChildProcess::Terminate() { End(SIGTERM); }
void ChildProcess::Kill() { End(SIGKILL); }

std::string ChildProcess::LogTail() const {
  const auto text = base::ReadFile(log_).value_or("");
  return text.size() > 3000 ? text.substr(text.size() - 3000) : text;
}

}  // namespace pitcrew::testing

#include "support/go_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "tests/support/folders.h"

namespace pitcrew::testing {
namespace {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Runs a program with its standard streams in files; its exit status, or -1.
int Run(const std::vector<std::string>& words, const fs::path& folder, const fs::path& streams) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto open = [&](const char* name, int flags, int as) {
      ::dup2(::open((streams / name).c_str(), flags | O_CREAT, 0600), as);
    };
    open("in", O_RDONLY, STDIN_FILENO);
    open("out", O_WRONLY | O_TRUNC, STDOUT_FILENO);
    open("err", O_WRONLY | O_TRUNC, STDERR_FILENO);
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (folder.empty() || ::chdir(folder.c_str()) == 0) ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = -1;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

base::Result<std::string> RunIn(const std::vector<std::string>& words, const fs::path& folder,
                                std::string_view input) {
  std::string pattern = fs::temp_directory_path() / "pitcrew-go-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) return base::Fail(base::FromErrno(errno, "mkdtemp"));
  const fs::path streams = pattern;
  TRY(base::WriteFileAtomically(streams / "in", input, 0600));
  const int status = Run(words, folder, streams);
  const auto out = base::ReadFile(streams / "out");
  const auto err = base::ReadFile(streams / "err");
  std::error_code ignored;
  fs::remove_all(streams, ignored);
  if (status == 0) return out;
  return base::Fail(base::Unavailable(
      "ProgramFailed", fmt::format("{} ended with {}: {}", words[0], status, err.value_or(""))));
}

}  // namespace

base::Result<fs::path> FindGo() {
  std::vector<fs::path> candidates;
  for (const auto& folder : base::SplitTrimmed(Variable("PATH"), ':')) {
    candidates.push_back(fs::path(folder) / "go");
  }
  fs::path cache = Variable("PITCREW_CACHE");
  if (cache.empty() && !Variable("XDG_CACHE_HOME").empty()) {
    cache = fs::path(Variable("XDG_CACHE_HOME")) / "pitcrew";
  }
  if (cache.empty()) cache = fs::path(Variable("HOME")) / ".cache/pitcrew";
  candidates.push_back(cache / "go/go/bin/go");
  candidates.push_back("/usr/local/go/bin/go");
  for (const auto& candidate : candidates) {
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return base::Fail(
      base::NotFound("NoGo",
                     "this test needs a Go toolchain (1.25 or newer): none is on PATH and none in "
                     "$PITCREW_CACHE/go/go/bin; `make setup` installs one"));
}

base::Result<fs::path> BuildGoProgram(const fs::path& folder, const std::string& name) {
  TRY_ASSIGN(const fs::path go, FindGo());
  const fs::path program = test_support::BuildFolder() / "bin" / name;
  // Built beside and renamed: another test may be running the program.
  const std::string fresh = program.string() + "." + std::to_string(::getpid());
  TRY(RunIn({go, "build", "-buildvcs=false", "-o", fresh, "."},
            test_support::SourceFolder() / folder, ""));
  fs::rename(fresh, program);
  return program;
}

base::Result<std::string> RunWithInput(const fs::path& program, std::string_view input) {
  return RunIn({program}, "", input);
}

}  // namespace pitcrew::testing

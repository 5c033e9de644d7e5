#include "tests/support/program.h"
#include "tests/support/folders.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>

namespace pitcrew::test_support {

Program::Program(const std::string& name, std::vector<std::string> words,
                 std::vector<std::string> environment) {
  words.insert(words.begin(), name);
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (auto& variable : environment) envp.push_back(variable.data());
  envp.push_back(nullptr);
  const auto path = test_support::BuildFolder() / "bin" / name;
  // The test's own signal mask is not the program's.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (posix_spawn(&pid_, path.c_str(), nullptr, &attributes, argv.data(), envp.data()) != 0) {
    pid_ = -1;
    ADD_FAILURE() << "cannot start " << path;
  }
  posix_spawnattr_destroy(&attributes);
}

Program::~Program() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  Wait();
}

void Program::Signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int Program::Wait() {
  if (pid_ <= 0) return -1;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace pitcrew::test_support

#include "simulation/testing/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace pitcrew::simulation {

Process::Process(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& folder) {
  int output[2];
  int errors[2];
  if (::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(errors, O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(output[1], 1);
    ::dup2(errors[1], 2);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    std::vector<char*> argv;
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(output[1]);
  ::close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(output_);
  ::close(errors_);
}

std::string Process::ReadLine() {
  std::string line;
  char byte = 0;
  while (::read(output_, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

void Process::Signal(int number) const { ::kill(pid_, number); }

Outcome Process::Wait() {
  pollfd fds[2] = {{output_, POLLIN, 0}, {errors_, POLLIN, 0}};
  std::string* texts[2] = {&outcome_.output, &outcome_.errors};
  int open = 2;
  while (open > 0 && ::poll(fds, 2, -1) > 0) {
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[4096];
      const auto count = ::read(fds[i].fd, buffer, sizeof(buffer));
      if (count > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(count));
      } else {
        fds[i].fd = -1;
        --open;
      }
    }
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  outcome_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome_;
}

Outcome RunProgram(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& environment,
                   const std::string& folder) {
  return Process(arguments, environment, folder).Wait();
}

}  // namespace pitcrew::simulation

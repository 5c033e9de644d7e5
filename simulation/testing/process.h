// Other programs, for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pitcrew::simulation {

struct Outcome {
  int status = -1;  // exit status; 128 + signal when killed by one
  std::string output;
  std::string errors;
};

// A started program with pipes; ends with its scope.
class Process {
 public:
  // `environment` is added to this process's own.
  Process(const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {},
          const std::string& folder = "");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Blocks for one more line of its standard output, without the newline; empty at its end.
  std::string ReadLine();
  void Signal(int number) const;
  [[nodiscard]] int pid() const { return pid_; }
  // Reads the rest and waits for the end.
  Outcome Wait();

 private:
  int pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  Outcome outcome_;
};

Outcome RunProgram(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& environment = {},
                   const std::string& folder = "");

}  // namespace pitcrew::simulation

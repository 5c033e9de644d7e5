// Programs started by tests.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace pitcrew::test_support {

// A program of this build by its name, or one of the machine by its whole path; killed when it
// outlives this object.
class Program {
 public:
  Program(const std::string& name, std::vector<std::string> words,
          std::vector<std::string> environment);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  void Signal(int number) const;
  // Waits for the end: the exit status, or 128 and the signal's number.
  int Wait();

 private:
  pid_t pid_ = -1;
};

}  // namespace pitcrew::test_support

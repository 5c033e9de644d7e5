// From arguments to output, with everything that the process would do as values.
#pragma once

#include <string>

#include "io/stop.h"
#include "plan/arguments.h"

namespace pitcrew::plan {

struct Answer {
  int status = 0;      // of the process
  std::string output;  // standard output
  std::string errors;  // standard error: problems and notes, a line each
};

Answer Run(const Arguments& arguments, const io::StopToken& stop = {});

}  // namespace pitcrew::plan

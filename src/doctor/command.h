// `pitcrew status` and `pitcrew doctor`: how a cluster's GPUs are, and what to do about it. Both
// only read. Exit codes: 0 everything is ready, 1 the cluster could not be read, or too little of
// it to say so, 2 wrong usage, 3 something is not ready.
#pragma once

namespace pitcrew::doctor {

int StatusCommand(int argc, char** argv);
int DoctorCommand(int argc, char** argv);

}  // namespace pitcrew::doctor

// driver-manager alone, for machines that are booted for a test: the multi-call binary brings forty
// megabytes of other commands.
#include "node/driver_manager/command.h"

int main(int argc, char** argv) { return pitcrew::node::driver_manager::Command(argc, argv); }

// vfio-manage alone, for machines that are booted for a test: the multi-call binary brings forty
// megabytes of other commands.
#include "node/vfio_manager/command.h"

int main(int argc, char** argv) { return pitcrew::node::vfio_manager::Command(argc, argv); }

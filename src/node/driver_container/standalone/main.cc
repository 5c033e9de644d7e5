// The program nvidia-driver by itself, as it stands in a driver image.
#include "node/driver_container/command.h"

int main(int argc, char** argv) { return pitcrew::node::driver_container::Command(argc, argv); }

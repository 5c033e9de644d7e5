// The device plugin alone, for tests that start it as a program.
#include "node/device_plugin/command.h"

int main(int argc, char** argv) { return pitcrew::node::device_plugin::Command(argc, argv); }

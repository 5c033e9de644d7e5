// The config manager alone, for tests that start it as a program.
#include "node/config_manager/command.h"

int main(int argc, char** argv) { return pitcrew::node::config_manager::Command(argc, argv); }

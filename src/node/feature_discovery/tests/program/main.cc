// Feature discovery alone, for tests that start it as a program.
#include "node/feature_discovery/command.h"

int main(int argc, char** argv) { return pitcrew::node::feature_discovery::Command(argc, argv); }

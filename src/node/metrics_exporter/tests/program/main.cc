// The metrics exporter alone, for tests and benchmarks that start it as a program.
#include "node/metrics_exporter/command.h"

int main(int argc, char** argv) { return pitcrew::node::metrics_exporter::Command(argc, argv); }

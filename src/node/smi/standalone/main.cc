// The program nvidia-smi of the simulated driver.
#include "node/smi/command.h"

int main(int argc, char** argv) { return pitcrew::node::smi::Command(argc, argv); }

#include "node/mig_parted/command.h"

int main(int argc, char** argv) { return pitcrew::node::mig_parted::Command(argc, argv); }

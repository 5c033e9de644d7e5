// Entry points of node feature discovery's programs: nfd-worker, nfd-master, nfd-gc.
#pragma once

namespace pitcrew::node::nfd {

int WorkerCommand(int argc, char** argv);
int MasterCommand(int argc, char** argv);
int GcCommand(int argc, char** argv);

}  // namespace pitcrew::node::nfd

// `pitcrew vm`: a virtual machine with GPUs, ready for kubectl apply.
#pragma once

namespace pitcrew::vm {

// 0: printed; 1: the cluster cannot be read, or offers nothing that fits; 2: wrong usage.
int Command(int argc, char** argv);

}  // namespace pitcrew::vm

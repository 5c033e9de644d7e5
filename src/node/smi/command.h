// `pitcrew smi` and nvidia-smi: shows the node's GPUs.
#pragma once

namespace pitcrew::node::smi {

// Exit codes as nvidia-smi's: 0, 2 usage, 6 no such GPU, 9 no driver, 12 no library, 15 a GPU is
// lost, 255 anything else.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::smi

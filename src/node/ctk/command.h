// nvidia-ctk: the administrator's tool (container-toolkit.md 5).
#pragma once

namespace pitcrew::node::ctk {

int Command(int argc, char** argv);

}  // namespace pitcrew::node::ctk

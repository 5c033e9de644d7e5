// Entry point of `nvidia-validator qualify`, which the validator hands over to.
#pragma once

namespace pitcrew::node::qualification {

// argv[0] is the name that messages use.
int Command(int argc, char** argv);

}  // namespace pitcrew::node::qualification

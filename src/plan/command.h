// `pitcrew plan`: what the operator would do to a cluster, without doing it.
#pragma once

namespace pitcrew::plan {

// 0: nothing would change; 2: something would; 1: an error, wrong usage included, because 2 has a
// meaning of its own here.
int Command(int argc, char** argv);

}  // namespace pitcrew::plan

// The aligned choice among whole GPUs (device-plugin.md section 15.3), as a problem about numbers.
#pragma once

#include <cstddef>
#include <vector>

namespace pitcrew::node::device_plugin {

struct PartitionProblem {
  std::size_t size = 0;                  // members of the set that is wanted; at least 1
  std::vector<std::vector<int>> scores;  // symmetric; how well two members go together
  std::vector<std::size_t> required;     // members that the set must have; at most `size`
};

// Divides all members into sets of `size` (one may be smaller when they do not divide evenly) so
// that the sum of the scores inside the sets is greatest, and returns the best complete set with
// all required members, its members in ascending order. Among equals the first in lexicographic
// order wins. With more than 16 members the remainder is no longer weighed: the set grows from its
// first member by the best next one.
std::vector<std::size_t> BestSet(const PartitionProblem& problem);

}  // namespace pitcrew::node::device_plugin

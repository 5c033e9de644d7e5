// Words that components append to a deploy label while they work ("true" becomes the word, "mine"
// becomes "mine_<word>"), taken away again.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pitcrew::desired {

// `value` without those of `words` at its end; "" when nothing is left.
std::string WithoutPauses(std::string_view value, std::span<const std::string_view> words);

}  // namespace pitcrew::desired

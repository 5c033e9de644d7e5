// Random texts that nobody can guess, and their comparison.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pitcrew::dashboard {

// `bytes` random bytes of the kernel's, in hexadecimal digits.
std::string RandomText(std::size_t bytes);
// In a time that tells nothing about where the texts differ.
bool AreSame(std::string_view secret, std::string_view given);

}  // namespace pitcrew::dashboard

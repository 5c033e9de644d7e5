#include "dashboard/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdlib>
#include <vector>

namespace pitcrew::dashboard {

std::string RandomText(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  // Up to 256 bytes come whole once the kernel has its entropy, for which the call waits.
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(bytes)) std::abort();
  std::string text;
  for (const unsigned char byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

bool AreSame(std::string_view secret, std::string_view given) {
  if (secret.size() != given.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    difference |= static_cast<unsigned char>(secret[i]) ^ static_cast<unsigned char>(given[i]);
  }
  return difference == 0;
}

}  // namespace pitcrew::dashboard

// Where tests find the sources and what was built. The paths stand in one object of each program,
// never in a compiler's command line or a header: so the compiler's cache serves every other object
// in any checkout.
#pragma once

#include <filesystem>

namespace pitcrew::test_support {

std::filesystem::path SourceFolder();  // the checkout
std::filesystem::path BuildFolder();   // of the preset that was built: bin, lib

#ifdef PITCREW_TEST_DATA  // relative to the checkout (cmake/Room.cmake)
// The folder tests/data of the room whose tests include this header.
[[maybe_unused]] static std::filesystem::path TestData() {
  return SourceFolder() / PITCREW_TEST_DATA;
}
#endif

}  // namespace pitcrew::test_support

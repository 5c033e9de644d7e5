// What the machines are called that this project is built for, and where Debian keeps their
// libraries.
#pragma once

#include <array>
#include <string_view>

namespace pitcrew::base {

// Debian's folders of shared libraries, below /usr/lib and /lib (its wiki: Multiarch/Tuples).
inline constexpr std::array<std::string_view, 2> kMultiarchFolders = {"x86_64-linux-gnu",
                                                                      "aarch64-linux-gnu"};

// Of the machine that this program is built for: as the kernel calls it, and that folder.
#if defined(__aarch64__)
inline constexpr std::string_view kOwnMachine = "aarch64";
inline constexpr std::string_view kOwnMultiarchFolder = kMultiarchFolders[1];
#else
inline constexpr std::string_view kOwnMachine = "x86_64";
inline constexpr std::string_view kOwnMultiarchFolder = kMultiarchFolders[0];
#endif

}  // namespace pitcrew::base

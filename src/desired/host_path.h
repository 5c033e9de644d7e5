// Paths of the node inside the policy's values, joined and taken apart as upstream does it (Go's
// package path): without double slashes, "." and "..", so "/opt/x/" and "/opt/x" mean the same.
// Purely lexical; nothing is looked up.
#pragma once

#include <string>
#include <string_view>

namespace pitcrew::desired {

// "." for an empty path.
std::string CleanPath(std::string_view path);
// An empty `base` is left out.
std::string JoinPath(std::string_view base, std::string_view rest);
// "." for a name alone.
std::string FolderOf(std::string_view path);
// The last element, whether a slash follows it or not.
std::string FileNameOf(std::string_view path);

}  // namespace pitcrew::desired

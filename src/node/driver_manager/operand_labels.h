// What is paused on a node while its driver is changed: the operands that use it
// (driver-lifecycle.md 4.5), as their descriptors tell.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::node::driver_manager {

// The labels that keep them on a node, and `custom_label` ("": none). Borrowed.
std::vector<std::string_view> LabelsToPause(std::string_view custom_label);
// The apps whose pods are waited for.
std::set<std::string, std::less<>> AppsToAwait();

}  // namespace pitcrew::node::driver_manager

// The labels that keep the GPU operands on a node (driver-lifecycle.md 4.5).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::node::driver_manager {

struct OperandLabel {
  std::string_view label;
  std::string_view app;  // value of its pods' label "app"; "" when its pods are not waited for
};
// Every operand that uses the driver, except the driver itself.
const std::vector<OperandLabel>& OperandLabels();

// Their labels, and `custom_label` ("": none). Borrowed.
std::vector<std::string_view> LabelsToPause(std::string_view custom_label);
// The apps whose pods are waited for.
std::set<std::string, std::less<>> AppsToAwait();

}  // namespace pitcrew::node::driver_manager

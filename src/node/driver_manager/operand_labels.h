// The labels that keep the GPU operands on a node, and how they are paused while a driver is
// exchanged (driver-lifecycle.md 4.5). Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"

namespace pitcrew::node::driver_manager {

struct OperandLabel {
  std::string_view label;
  std::string_view app;  // value of its pods' label "app"; "" when its pods are not waited for
};
// Every operand that uses the driver, except the driver itself.
const std::vector<OperandLabel>& OperandLabels();

// "true" becomes "paused-for-driver-upgrade", "x" becomes "x_paused-for-driver-upgrade"; "",
// "false" and paused values stay.
std::string PausedValue(std::string_view value);
// The way back; values that are not paused stay.
std::string ResumedValue(std::string_view value);

// The merge patch of a node's labels that pauses (or resumes) every operand label and
// `custom_label` ("": none); nothing when no label has to change. Labels that are not there are not
// made.
std::optional<codec::Json> PausePatch(const codec::Json& node, std::string_view custom_label);
std::optional<codec::Json> ResumePatch(const codec::Json& node, std::string_view custom_label);

// A label or annotation of an object; "" when it is missing.
std::string LabelOf(const codec::Json& object, std::string_view name);
std::string AnnotationOf(const codec::Json& object, std::string_view name);

}  // namespace pitcrew::node::driver_manager

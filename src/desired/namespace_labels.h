// What the operator writes onto its own namespace, and how it takes that back: with an uninstall
// the namespace has the labels that it had before.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "codec/json.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {

// Annotation of the namespace: the values that the operator has replaced, as a JSON object by
// label.
inline constexpr std::string_view kNamespaceLabelsBefore =
    "nvidia.com/gpu-operator.namespace-labels-before";

// The merge patch that sets `labels` on the namespace `current`, and remembers what they replace.
codec::Json NamespacePatch(const std::map<std::string, std::string>& labels,
                           const codec::Json& current);

// Of the operator's namespace: the labels that the operator (or upstream's) has set and that stand
// as it set them, as managed fields tell; each with the value of before, or none to remove it.
// A label that a person has set meanwhile stays.
Changes CleanUpNamespace(const codec::Json& current);

}  // namespace pitcrew::desired

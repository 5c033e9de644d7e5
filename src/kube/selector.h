// Label selectors as the API takes them in a request.
#pragma once

#include <map>
#include <string>

namespace pitcrew::kube {

using Labels = std::map<std::string, std::string, std::less<>>;

// Every label must have this value (matchLabels, nodeSelector): "a=b,c=d" for ListOptions and
// InformerOptions. Empty labels select everything.
std::string SelectorOf(const Labels& labels);

}  // namespace pitcrew::kube

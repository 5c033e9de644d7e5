#include "kube/selector.h"

#include <vector>

#include "base/strings.h"

namespace pitcrew::kube {

std::string SelectorOf(const Labels& labels) {
  std::vector<std::string> parts;
  parts.reserve(labels.size());
  for (const auto& [key, value] : labels) parts.push_back(key + "=" + value);
  return base::Join(parts, ",");
}

}  // namespace pitcrew::kube

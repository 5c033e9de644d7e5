// Label selectors as the API takes them in a request.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::kube {

using Labels = std::map<std::string, std::string, std::less<>>;

// Every label must have this value (matchLabels, nodeSelector): "a=b,c=d" for ListOptions and
// InformerOptions. Empty labels select everything.
std::string SelectorOf(const Labels& labels);

// A selector that is followed without a server: "a=b,c!=d,e in (x, y),f notin (z),g,!h,i>3".
class LabelSelector {
 public:
  // kInvalid "InvalidSelector" for what is none. The empty text selects everything.
  static base::Result<LabelSelector> Parse(std::string_view text);
  // `object`: anything with metadata.labels.
  [[nodiscard]] bool Selects(const codec::Json& object) const;

 private:
  enum class Operator { kIn, kNotIn, kExists, kMissing, kGreater, kLess };
  struct Requirement {
    std::string key;
    Operator what = Operator::kExists;
    std::vector<std::string> values = {};
    std::int64_t bound = 0;  // of kGreater and kLess
  };
  static base::Result<Requirement> ParseRequirement(std::string_view text);
  static bool IsMet(const Requirement& requirement, const codec::Json* value);

  std::vector<Requirement> requirements_;
};

}  // namespace pitcrew::kube

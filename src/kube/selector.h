// Label selectors: parsing and matching (apimachinery's labels package and metav1.LabelSelector).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::kube {

using Labels = std::map<std::string, std::string, std::less<>>;

// The labels (metadata.labels) of an object; empty when it has none.
Labels LabelsOf(const codec::Json& object);

class LabelSelector {
 public:
  // Selects everything.
  LabelSelector() = default;

  // "a=b,c!=d,e in (f,g),h notin (i),j,!k"; kInvalid tells the position.
  static base::Result<LabelSelector> Parse(std::string_view text);
  // matchLabels and matchExpressions; null or {} selects everything.
  static base::Result<LabelSelector> FromJson(const codec::Json& selector);
  // Every label must have this value (nodeSelector, matchLabels).
  static LabelSelector FromLabels(const Labels& labels);

  [[nodiscard]] bool Matches(const Labels& labels) const;
  [[nodiscard]] bool empty() const { return requirements_.empty(); }
  // The text form that the API takes as labelSelector.
  [[nodiscard]] std::string ToString() const;

 private:
  enum class Operator { kEquals, kNotEquals, kIn, kNotIn, kExists, kDoesNotExist };
  struct Requirement {
    std::string key;
    Operator op = Operator::kExists;
    std::vector<std::string> values;
  };
  friend class SelectorParser;
  std::vector<Requirement> requirements_;
};

}  // namespace pitcrew::kube

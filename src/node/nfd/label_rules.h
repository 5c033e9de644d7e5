// What Kubernetes and node feature discovery accept as labels (node-feature-discovery.md 5.3, 8.4).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::node::nfd {

inline constexpr std::string_view kFeatureNamespace = "feature.node.kubernetes.io";

// Errors say what is wrong with the text.
base::Status CheckQualifiedName(std::string_view name);
base::Status CheckLabelValue(std::string_view value);

// The part before the first "/", or "".
std::string_view NamespaceOf(std::string_view name);
// The part after the first "/", or the whole.
std::string_view BaseNameOf(std::string_view name);
// Puts "feature.node.kubernetes.io/" in front of a name that has no prefix.
std::string WithDefaultNamespace(std::string_view name);

// *.kubernetes.io belongs to Kubernetes, except the feature and profile namespaces and those below
// them.
bool IsReservedNamespace(std::string_view label_namespace);

// A regular expression over base names; unanchored; an empty one lets everything through.
class LabelWhiteList {
 public:
  static base::Result<LabelWhiteList> Compile(std::string_view expression);
  LabelWhiteList() = default;
  [[nodiscard]] bool Matches(std::string_view base_name) const;

 private:
  struct Expression;
  std::shared_ptr<const Expression> expression_;
};

}  // namespace pitcrew::node::nfd

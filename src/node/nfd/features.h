// What a node has, as NodeFeature objects carry it (node-feature-discovery.md 3.1).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::node::nfd {

using Attributes = std::map<std::string, std::string>;
using Labels = std::map<std::string, std::string>;

// Keys of the maps are "<domain>.<feature>", for example "pci.device".
struct Features {
  std::map<std::string, std::set<std::string>> flags;
  std::map<std::string, Attributes> attributes;
  std::map<std::string, std::vector<Attributes>> instances;

  [[nodiscard]] bool empty() const {
    return flags.empty() && attributes.empty() && instances.empty();
  }
  // Later wins: flags and attributes by element, instances are appended.
  void Merge(const Features& later);
  bool operator==(const Features&) const = default;
};

// What one source found. Names of labels are as the source gives them: built-in sources without
// prefix.
struct Discovery {
  Features features;
  Labels labels;
  std::vector<base::Error> left_out;  // parts that cannot be published, with the reason
  bool operator==(const Discovery&) const = default;
};

// The value of spec.features; all three maps are always there.
codec::Json ToJson(const Features& features);
// Members of another shape are kInvalid.
base::Result<Features> FeaturesFromJson(const codec::Json& json);

}  // namespace pitcrew::node::nfd

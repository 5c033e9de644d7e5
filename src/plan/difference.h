// How an object that stands differs from the one that would be applied, field by field.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"

namespace pitcrew::plan {

struct FieldChange {
  // "spec.template.spec.containers[nvidia-driver-ctr].image": members of lists by what names them,
  // where something does; a name that is no plain word in brackets.
  std::string path;
  std::optional<codec::Json> before;  // none: it is added
  std::optional<codec::Json> after;   // none: it is removed

  bool operator==(const FieldChange&) const = default;
};

// Fields of `desired` that `live` has otherwise or not at all, in the order of their names. Empty
// exactly when desired::Covers(live, desired): fields that only `live` has are the server's
// defaults or other managers'.
std::vector<FieldChange> FieldChanges(const codec::Json& live, const codec::Json& desired);

// Fields that `live` has because one of `managers` wrote them (metadata.managedFields) and that
// `desired` lacks: an apply that no longer mentions them removes them. Empty without managed
// fields.
std::vector<FieldChange> AbandonedFields(const codec::Json& live, const codec::Json& desired,
                                         const std::vector<std::string_view>& managers);

// Labels and annotations in which two objects differ; `after` has them all.
std::vector<FieldChange> MetadataChanges(const codec::Json& live, const codec::Json& after);

// `path` with the member `name` behind it.
std::string PathOfMember(const std::string& path, std::string_view name);

}  // namespace pitcrew::plan

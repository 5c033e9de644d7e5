// What the API server would say about an object, without an API server: the structural schema of
// the embedded definitions.
#pragma once

#include <vector>

#include "api/cluster_policy.h"
#include "codec/json.h"

namespace pitcrew::api {

// Everything in a ClusterPolicy that the schema of its definition refuses, in the order of field
// names: unknown fields (with the field that was probably meant), missing ones, wrong types, values
// outside an enumeration, a range or a pattern. Null counts as absent, as kubectl sends it. Only
// spec is looked at. Rules between fields are CheckPolicy's of the operator.
std::vector<FieldProblem> CheckClusterPolicy(const codec::Json& object);

// The same of a NVIDIADriver. With `stored`, the object that it would replace, also fields that
// cannot be changed.
std::vector<FieldProblem> CheckNvidiaDriver(const codec::Json& object,
                                            const codec::Json* stored = nullptr);

// The same for any schema of the form that definitions use; `path` is that of `value`.
void CheckAgainstSchema(const codec::Json& schema, const codec::Json& value,
                        const std::string& path, std::vector<FieldProblem>& problems);

// The candidate that `word` was probably meant to be: nearest in letters, ignoring case; "" when
// none is near.
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace pitcrew::api

// Clusters of golden cases, written as what differs from another one.
#pragma once

#include <filesystem>
#include <vector>

#include "codec/json.h"

namespace pitcrew::test_support {

// The documents of a YAML stream. A mistake in the data ends the program: a case that is skipped
// silently proves nothing.
std::vector<codec::Json> ReadStream(const std::filesystem::path& file);

// The objects of the YAML stream `base` with those of `patch` (no file: none): a merge patch (RFC
// 7386) of the object with its kind, namespace and name; one that is not there is added; `kind:
// Remove` with `objects: [Kind namespace/name]` takes some away. Sorted by identity.
std::vector<codec::Json> PatchedObjects(const std::filesystem::path& base,
                                        const std::filesystem::path& patch);

}  // namespace pitcrew::test_support

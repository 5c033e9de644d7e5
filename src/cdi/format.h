// Text of CDI specifications, in upstream's byte formats (container-toolkit.md 2.3, 2.4), and
// files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cdi/spec.h"

namespace pitcrew::cdi {

// The lowest CDI version that has everything in `spec` (container-toolkit.md 6.11).
std::string MinimumVersion(const Spec& spec);
// Known version at or above the minimum, valid and unique names, at least one device, no device
// without edits, well-formed entries. The error names the entry.
base::Status Validate(const Spec& spec);

// "---" and block style with steps of four. A spec without a version gets its minimum.
std::string ToYamlText(const Spec& spec);
// Compact, no newline at the end.
std::string ToJsonText(const Spec& spec);

// Reads YAML or JSON; members that the CDI specification does not have are an error, as in
// upstream. The result is not validated. `source` names the text in errors.
base::Result<Spec> ParseSpec(std::string_view text, std::string_view source);

// Validates and writes atomically with mode 0644, as JSON when the name ends in .json, else YAML.
base::Status WriteSpecFile(const std::filesystem::path& path, const Spec& spec);
// The same, unless the file says so already: container runtimes read a folder again when a file in
// it changes. True when it was written. A missing version becomes the lowest that fits.
base::Result<bool> UpdateSpecFile(const std::filesystem::path& path, Spec spec);
// "<vendor>-<class>", the usual file name without its ending.
std::string SpecFileStem(std::string_view kind);

}  // namespace pitcrew::cdi

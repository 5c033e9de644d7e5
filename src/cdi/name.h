// Names of CDI devices: vendor/class=device (CDI specification, container-toolkit.md 6.11).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::cdi {

struct QualifiedName {
  std::string vendor;  // "nvidia.com"
  std::string device_class;
  std::string device;
  // "vendor/class".
  [[nodiscard]] std::string kind() const;
  [[nodiscard]] std::string ToString() const;
  bool operator==(const QualifiedName&) const = default;
};

// kInvalid says which part is wrong and what it must look like.
base::Result<QualifiedName> ParseQualifiedName(std::string_view text);
bool IsQualifiedName(std::string_view text);

// For a message: the first sixteen, each cut at 256 bytes, and how many more there are. A pod can
// ask for a hundred thousand names, each of any length.
std::string SomeNames(std::vector<std::string> names);

// Vendor and class: begin with a letter, end with a letter or digit, between them also _ - and
// (the vendor and, since version 0.6.0, the class) a dot. `kind` is "vendor/class".
base::Status ValidateKind(std::string_view kind);
// Begins and ends with a letter or digit; between them also _ - . and :.
base::Status ValidateDeviceName(std::string_view name);

}  // namespace pitcrew::cdi

// How the headers and the modules of a kernel are installed in a driver image, by the package tool
// of its distribution (driver-lifecycle.md 9.3).
#pragma once

#include <string>
#include <vector>

#include "node/driver_container/facts.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

struct PackageStep {
  std::string purpose;
  // Command lines, one after the other until one ends with status 0.
  std::vector<std::vector<std::string>> attempts;
  bool may_fail = false;

  bool operator==(const PackageStep&) const = default;
};

// Empty without a package tool.
std::vector<PackageStep> HeaderSteps(const Options& options, const Facts& facts);

// Packages with the kernel's own modules, which are unpacked and not installed: their scripts would
// make this image boot. apt only; dnf's are among HeaderSteps, without scripts.
std::vector<std::string> ModulePackages(const Facts& facts);

// "9.4" of the kernel 5.14.0-427.37.1.el9_4.x86_64, "8" of 4.18.0-553.el8.x86_64; "" of others.
std::string RedHatRelease(const std::string& kernel);

}  // namespace pitcrew::node::driver_container

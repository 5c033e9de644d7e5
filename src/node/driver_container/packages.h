// How the headers and the modules of a kernel are installed in a driver image, by the package tool
// of its distribution (driver-lifecycle.md 9.3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "node/driver_container/facts.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// One command line of the package tool.
struct PackageAttempt {
  std::vector<std::string> words;
  std::string release;  // whose packages it looks for; "" where there is one only

  bool operator==(const PackageAttempt&) const = default;
};

struct PackageStep {
  std::string purpose;
  std::vector<PackageAttempt> attempts;  // one after the other until one ends with status 0
  bool may_fail = false;

  bool operator==(const PackageStep&) const = default;
};

// Empty without a package tool.
std::vector<PackageStep> HeaderSteps(const Options& options, const Facts& facts);

// What asks for the same without changing anything but `scratch`, a folder: where the image's root
// file system cannot be written to, too. An attempt whose package can be had names it in its answer
// (dnf), or ends with status 0 (apt).
std::vector<PackageStep> HeaderQuestions(const Options& options, const Facts& facts,
                                         const std::string& scratch);
// The package that has the headers.
std::string HeaderPackage(const Facts& facts);
// Whether a tool that has failed says so of the package, and not of something on the way to it.
bool SaysMissing(std::string_view complaint);

// Packages with the kernel's own modules, which are unpacked and not installed: their scripts would
// make this image boot. apt only; dnf's are among HeaderSteps, without scripts.
std::vector<std::string> ModulePackages(const Facts& facts);

// "gcc-12", as the kernel's configuration (.config) names the compiler that the kernel was made
// with; "" of a compiler whose name has no version. An older one may not know the options that the
// kernel was configured for.
std::string KernelCompiler(std::string_view configuration);
// Empty where the tool's packages of compilers are not named after their versions.
std::vector<PackageStep> CompilerSteps(const Facts& facts, const std::string& compiler);

// Addresses of private mirrors may have a name and a password before the host: not for messages.
std::string WithoutCredentials(std::string_view text);

// What asks the package tool for the repositories that it looks into, and writes to `scratch` alone
// where one is given; and what it has answered, as their names.
std::vector<std::string> RepositoryQuery(PackageTool tool, const std::string& scratch = "");
std::vector<std::string> RepositoryNames(PackageTool tool, std::string_view answer);

// What a package tool has written to standard error, in one line for a person.
std::string Complaint(std::string_view error_output);

// "9.4" of the kernel 5.14.0-427.37.1.el9_4.x86_64, "8" of 4.18.0-553.el8.x86_64; "" of others.
std::string RedHatRelease(const std::string& kernel);

}  // namespace pitcrew::node::driver_container

#include "node/driver_container/packages.h"

#include <fmt/format.h>

#include <cctype>

#include "base/strings.h"

namespace pitcrew::node::driver_container {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view k64kPages = "+64k";

std::vector<PackageStep> AptSteps(const Options& options, const Facts& facts) {
  std::vector<PackageStep> steps;
  if (options.refresh_packages) {
    steps.push_back({"refresh the lists of packages", {{"apt-get", "-qq", "update"}}});
  }
  steps.push_back({"install the kernel's headers",
                   {{"apt-get", "-qq", "--yes", "--no-install-recommends", "install",
                     "linux-headers-" + facts.kernel}}});
  return steps;
}

// The same command for each release that may have the package, the exact one first.
std::vector<Words> ForEachRelease(const std::vector<std::string>& releases, const Words& rest) {
  std::vector<Words> attempts;
  for (const auto& release : releases) {
    Words words = {"dnf", "-q", "-y"};
    if (!release.empty()) words.push_back("--releasever=" + release);
    words.insert(words.end(), rest.begin(), rest.end());
    attempts.push_back(std::move(words));
  }
  return attempts;
}

// Only Red Hat's own repositories are divided by minor release.
std::vector<std::string> Releases(const Options& options, const Facts& facts) {
  if (!options.release_version.empty()) return {options.release_version};
  const auto exact = RedHatRelease(facts.kernel);
  if (exact.empty() || facts.system.id() != "rhel") return {""};
  const auto major = exact.substr(0, exact.find('.'));
  return exact == major ? std::vector{exact} : std::vector{exact, major};
}

std::vector<PackageStep> DnfSteps(const Options& options, const Facts& facts) {
  std::string kernel = facts.kernel;
  std::string flavour;
  if (kernel.ends_with(k64kPages)) {
    kernel.resize(kernel.size() - k64kPages.size());
    flavour = "64k-";
  }
  const auto releases = Releases(options, facts);
  std::vector<PackageStep> steps;
  if (options.refresh_packages) {
    steps.push_back({"refresh the lists of packages", ForEachRelease(releases, {"makecache"})});
  }
  const auto exact = RedHatRelease(kernel);
  if (facts.system.id() == "rhel" && exact.find('.') != std::string::npos) {
    const auto major = exact.substr(0, exact.find('.'));
    steps.push_back({"use repositories with extended support",
                     {{"dnf", "-q", "config-manager", "--set-enabled",
                       fmt::format("rhel-{}-for-{}-baseos-eus-rpms", major, options.architecture)}},
                     true});
  }
  steps.push_back({"install the kernel's headers",
                   ForEachRelease(releases, {"install", "kernel-headers-" + kernel,
                                             fmt::format("kernel-{}devel-{}", flavour, kernel)})});
  if (!facts.has_kernel_modules) {
    steps.push_back({"install the kernel's modules",
                     ForEachRelease(releases, {"--setopt=tsflags=noscripts", "install",
                                               fmt::format("kernel-{}modules-{}", flavour, kernel)}),
                     true});
  }
  return steps;
}

}  // namespace

std::string RedHatRelease(const std::string& kernel) {
  const auto mark = kernel.find(".el");
  if (mark == std::string::npos) return "";
  std::string release;
  for (std::size_t at = mark + 3; at < kernel.size(); ++at) {
    const auto letter = static_cast<unsigned char>(kernel[at]);
    if (std::isdigit(letter) != 0) {
      release += kernel[at];
    } else if (letter == '_' && release.find('.') == std::string::npos) {
      release += '.';
    } else {
      break;
    }
  }
  return release;
}

std::vector<PackageStep> HeaderSteps(const Options& options, const Facts& facts) {
  switch (facts.packages) {
    case PackageTool::kApt:
      return AptSteps(options, facts);
    case PackageTool::kDnf:
      return DnfSteps(options, facts);
    case PackageTool::kNone:
      break;
  }
  return {};
}

std::vector<std::string> ModulePackages(const Facts& facts) {
  if (facts.packages != PackageTool::kApt || facts.has_kernel_modules) return {};
  std::vector<std::string> packages = {"linux-image-" + facts.kernel};
  // Debian has all modules in the package of the image.
  if (facts.system.id() == "ubuntu") packages.push_back("linux-modules-" + facts.kernel);
  return packages;
}

}  // namespace pitcrew::node::driver_container

#include "node/driver_container/packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/strings.h"

namespace pitcrew::node::driver_container {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kHeadersPurpose = "install the kernel's headers";
constexpr std::string_view kLookPurpose = "look for the kernel's headers";

// Of no use to anybody, or said again by the line that follows.
constexpr std::array<std::string_view, 6> kIdleWords = {
    "Failed to set locale",           "Errors during downloading",
    "Last metadata expiration check", "Updating Subscription Management repositories",
    "Unable to read consumer",        "Subscription Manager is operating in container mode"};

// Without a terminal of its own dpkg says its errors where apt-get does.
Words AptInstall(std::string package) {
  return {"apt-get", "-qq",
          "-o",      "Dpkg::Use-Pty=0",
          "--yes",   "--no-install-recommends",
          "install", std::move(package)};
}

std::vector<PackageStep> AptSteps(const Options& options, const Facts& facts) {
  std::vector<PackageStep> steps;
  if (options.refresh_packages) {
    // One repository that is away, or whose key has changed, need not be the one with the headers.
    steps.push_back({"refresh the lists of packages", {{{"apt-get", "-qq", "update"}, ""}}, true});
  }
  steps.push_back({std::string(kHeadersPurpose), {{AptInstall(HeaderPackage(facts)), ""}}});
  return steps;
}

// Exact releases first: the repositories of a major release have the kernels of its last minor
// release only.
std::vector<std::string> Releases(const Options& options, const Facts& facts) {
  if (!options.release_version.empty()) return {options.release_version};
  const auto exact = RedHatRelease(facts.kernel);
  if (exact.empty()) return {""};
  const auto major = exact.substr(0, exact.find('.'));
  return exact == major ? std::vector{exact} : std::vector{exact, major};
}

// Red Hat's repositories with extended support, which have what the others have dropped. They are
// there with a subscription, and switched off; dnf passes over those that a system does not have.
Words ExtendedSupport(const Options& options, const Facts& facts) {
  const auto release = RedHatRelease(facts.kernel);
  if (facts.system.id() != "rhel" || release.find('.') == std::string::npos) return {};
  Words words;
  for (const auto* part : {"baseos", "appstream"}) {
    words.push_back(fmt::format("--setopt=rhel-{}-for-{}-{}-eus-rpms.enabled=1",
                                release.substr(0, release.find('.')), options.architecture, part));
  }
  return words;
}

class Dnf {
 public:
  Dnf(const Options& options, const Facts& facts)
      : releases_(Releases(options, facts)), extended_(ExtendedSupport(options, facts)) {}

  // The same for each release.
  void Add(const Words& rest, PackageStep& step) const {
    for (const auto& release : releases_) {
      // A repository that is away need not be the one that has the package.
      Words words = {"dnf", "-y", "--setopt=skip_if_unavailable=1"};
      if (!release.empty()) words.push_back("--releasever=" + release);
      words.insert(words.end(), extended_.begin(), extended_.end());
      words.insert(words.end(), rest.begin(), rest.end());
      step.attempts.push_back({std::move(words), release});
    }
  }

 private:
  std::vector<std::string> releases_;
  Words extended_;
};

// 5.14.0-427.el9_4.aarch64+64k is the kernel of the packages kernel-64k-..., as {release, "64k-"}.
std::pair<std::string, std::string> RedHatKernel(const std::string& kernel) {
  const auto plus = kernel.find('+');
  return {kernel.substr(0, plus), plus == std::string::npos ? "" : kernel.substr(plus + 1) + "-"};
}

// Whatever dnf writes.
Words DnfWritesTo(const std::string& scratch) {
  return {"--setopt=cachedir=" + scratch + "/cache", "--setopt=persistdir=" + scratch + "/state",
          "--setopt=logdir=" + scratch + "/log"};
}

std::string AptLists(const std::string& scratch) {
  return "Dir::State::Lists=" + scratch + "/lists";
}

std::vector<PackageStep> AptQuestions(const Options& options, const Facts& facts,
                                      const std::string& scratch) {
  Words apt = {"apt-get", "-qq", "-o", "Dir::Cache=" + scratch + "/cache", "-o",
               // Another user could not write there.
               "APT::Sandbox::User=root"};
  std::vector<PackageStep> steps;
  if (options.refresh_packages) {
    apt.insert(apt.end(), {"-o", AptLists(scratch)});
    Words update = apt;
    update.emplace_back("update");
    steps.push_back({"fetch the lists of packages", {{std::move(update), ""}}, true});
  }
  apt.insert(apt.end(), {"--simulate", "--no-install-recommends", "install", HeaderPackage(facts)});
  steps.push_back({std::string(kLookPurpose), {{std::move(apt), ""}}});
  return steps;
}

std::vector<PackageStep> DnfQuestions(const Options& options, const Facts& facts,
                                      const std::string& scratch) {
  Words query = DnfWritesTo(scratch);
  query.insert(query.end(), {"-q", "repoquery", "--available", "--qf",
                             "%{name}-%{version}-%{release}.%{arch}", HeaderPackage(facts)});
  const Dnf dnf(options, facts);
  std::vector<PackageStep> steps(2, {std::string(kLookPurpose), {}, true});
  dnf.Add(query, steps[0]);
  // No repository had it. It may be in one that was passed over, without a word.
  query.insert(query.begin(),
               {"--setopt=skip_if_unavailable=0", "--setopt=*.skip_if_unavailable=0"});
  dnf.Add(query, steps[1]);
  return steps;
}

std::vector<PackageStep> DnfSteps(const Options& options, const Facts& facts) {
  const auto [kernel, flavour] = RedHatKernel(facts.kernel);
  const std::string devel = HeaderPackage(facts);
  const Dnf dnf(options, facts);
  const Words install = options.refresh_packages ? Words{"--refresh", "install"} : Words{"install"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  std::vector<PackageStep> steps;
  steps.push_back({std::string(kHeadersPurpose), {}});
  // The tools of a kernel's headers need this library, which small base images lack. Headers for
  // programs come last: modules are compiled without them.
  dnf.Add(with(install, {devel, "elfutils-libelf-devel", "kernel-headers-" + kernel}),
          steps.back());
  dnf.Add(with({"install"}, {devel, "elfutils-libelf-devel"}), steps.back());
  if (!facts.has_kernel_modules) {
    steps.push_back({"install the kernel's modules", {}, true});
    dnf.Add({"--setopt=tsflags=noscripts", "--setopt=install_weak_deps=0", "install",
             fmt::format("kernel-{}modules-{}", flavour, kernel)},
            steps.back());
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

std::vector<PackageStep> HeaderQuestions(const Options& options, const Facts& facts,
                                         const std::string& scratch) {
  switch (facts.packages) {
    case PackageTool::kApt:
      return AptQuestions(options, facts, scratch);
    case PackageTool::kDnf:
      return DnfQuestions(options, facts, scratch);
    case PackageTool::kNone:
      break;
  }
  return {};
}

std::string HeaderPackage(const Facts& facts) {
  if (facts.packages == PackageTool::kApt) return "linux-headers-" + facts.kernel;
  const auto [kernel, flavour] = RedHatKernel(facts.kernel);
  return fmt::format("kernel-{}devel-{}", flavour, kernel);
}

bool SaysMissing(std::string_view complaint) {
  constexpr std::array kWords = {"Unable to locate package", "has no installation candidate",
                                 "have unmet dependencies"};
  return std::ranges::any_of(kWords, [&](std::string_view words) {
    return complaint.find(words) != std::string_view::npos;
  });
}

std::string KernelCompiler(std::string_view configuration) {
  constexpr std::string_view kSetting = "CONFIG_CC_VERSION_TEXT=\"";
  const auto begin = configuration.find(kSetting);
  if (begin == std::string_view::npos) return "";
  const auto text = configuration.substr(begin + kSetting.size());
  // "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1) 12.3.0", "gcc (GCC) 11.4.1"
  const auto name = text.substr(0, text.find_first_of(" \"\n"));
  const auto at = name.rfind("gcc-");
  if (at == std::string_view::npos) return "";
  const auto version = name.substr(at + 4);
  const bool is_number = !version.empty() && std::ranges::all_of(version, [](unsigned char letter) {
    return std::isdigit(letter) != 0;
  });
  return is_number ? std::string(name.substr(at)) : "";
}

std::vector<PackageStep> CompilerSteps(const Facts& facts, const std::string& compiler) {
  if (facts.packages != PackageTool::kApt || compiler.empty()) return {};
  return {
      {"install the compiler that the kernel was made with", {{AptInstall(compiler), ""}}, true}};
}

std::vector<std::string> RepositoryQuery(PackageTool tool, const std::string& scratch) {
  switch (tool) {
    case PackageTool::kApt: {
      Words words = {"apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)",
                     "Created-By: Packages"};
      if (!scratch.empty()) words.insert(words.end(), {"-o", AptLists(scratch)});
      return words;
    }
    case PackageTool::kDnf: {
      Words words = {"dnf", "-q", "repolist"};
      if (scratch.empty()) return words;
      const Words places = DnfWritesTo(scratch);
      words.insert(words.begin() + 1, places.begin(), places.end());
      return words;
    }
    case PackageTool::kNone:
      break;
  }
  return {};
}

std::string WithoutCredentials(std::string_view text) {
  std::string shown;
  while (true) {
    const auto scheme = text.find("://");
    if (scheme == text.npos) return shown.append(text);
    shown.append(text.substr(0, scheme + 3));
    text.remove_prefix(scheme + 3);
    const auto end = text.substr(0, text.find_first_of("/ \"'")).rfind('@');
    if (end != text.npos) text.remove_prefix(end + 1);
  }
}

std::vector<std::string> RepositoryNames(PackageTool tool, std::string_view answer) {
  auto lines = base::SplitTrimmed(answer, '\n');
  std::vector<std::string> names;
  for (auto& line : lines) {
    // dnf's has a heading, and a title behind each name.
    if (tool == PackageTool::kDnf) line.resize(std::min(line.find(' '), line.size()));
    line = WithoutCredentials(line);
    const bool is_heading = tool == PackageTool::kDnf && &line == &lines.front();
    if (!is_heading && std::ranges::find(names, line) == names.end()) names.push_back(line);
  }
  return names;
}

std::string Complaint(std::string_view error_output) {
  constexpr std::size_t kMostLines = 6;
  std::vector<std::string> lines;
  for (auto& line : base::SplitTrimmed(error_output, '\n')) {
    const auto begins = [&](std::string_view words) { return line.starts_with(words); };
    if (std::ranges::any_of(kIdleWords, begins)) continue;
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  // What it ends with is what it ends for.
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - kMostLines);
  std::string text;
  for (const auto& line : lines) {
    if (!text.empty()) text += text.ends_with(':') ? " " : "; ";
    text += line;
  }
  return WithoutCredentials(text);
}

std::vector<std::string> ModulePackages(const Facts& facts) {
  if (facts.packages != PackageTool::kApt || facts.has_kernel_modules) return {};
  std::vector<std::string> packages = {"linux-image-" + facts.kernel};
  // Debian has all modules in the package of the image.
  if (facts.system.id() == "ubuntu") packages.push_back("linux-modules-" + facts.kernel);
  return packages;
}

}  // namespace pitcrew::node::driver_container

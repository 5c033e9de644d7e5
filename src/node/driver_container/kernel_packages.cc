#include "node/driver_container/kernel_packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/driver_container/folders.h"
#include "node/driver_container/packages.h"
#include "node/driver_container/programs.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

// Nobody answers questions here, and what it says is read.
const std::map<std::string, std::string> kToolVariables = {{"DEBIAN_FRONTEND", "noninteractive"},
                                                           {"LC_ALL", "C"}};

// The operator waits two minutes for the answer of a preflight (driver_upgrade/image_check.h).
constexpr std::chrono::seconds kLongestLook{90};

class KernelPackages {
 public:
  KernelPackages(const Options& options, const Facts& facts, const io::StopToken& stop)
      : options_(options), facts_(facts), stop_(stop) {}

  base::Status Install() {
    for (const auto& step : HeaderSteps(options_, facts_)) TRY(Take(step));
    if (!FindKernelHeaders(host::Root(options_.places.root), facts_.kernel)) {
      return base::Fail(
          Missing("their packages are installed, and have brought no folder of headers"));
    }
    return FetchModules();
  }

  // `scratch` is an empty folder.
  base::Status Look(const fs::path& scratch) {
    scratch_ = scratch;
    deadline_ = std::chrono::steady_clock::now() + kLongestLook;
    for (const char* folder : {"cache/archives/partial", "lists/partial", "log", "state"}) {
      TRY(MakeFolders(scratch / folder));
    }
    bool all_answer = true;
    for (const auto& step : HeaderQuestions(options_, facts_, scratch.string())) {
      for (const auto& attempt : step.attempts) {
        const auto end = Run(step.purpose, attempt.words);
        if (!end) return base::Fail(Unknown(end.error().message));
        const std::string complaint = Complaint(end->error_output);
        Complain(step, attempt, complaint);
        if (IsHad(step, *end)) return {};
        const bool is_clear = end->exit_status == 0 && complaint.empty();
        all_answer = all_answer && (is_clear || (!step.may_fail && SaysMissing(complaint)));
      }
    }
    // Of apt's repositories none is known that could not be reached.
    const bool has_none = facts_.packages == PackageTool::kDnf && Asked() == NoRepository();
    if (!all_answer && !has_none) return base::Fail(Unknown(Complaints()));
    return base::Fail(Missing(complaints_.empty()
                                  ? fmt::format("no repository has {}", HeaderPackage(facts_))
                                  : Complaints()));
  }

  base::Status Take(const PackageStep& step) {
    for (const auto& attempt : step.attempts) {
      const auto end = Run(step.purpose, attempt.words);
      if (!end) {
        if (stop_.stopped()) return base::Fail(end.error());
        base::LogWarning("A package tool has failed", end.error());
        Complain(step, attempt, end.error().message);
        continue;
      }
      // apt-get ends well, and says what it could not reach.
      Complain(step, attempt, Complaint(end->error_output));
      if (end->exit_status == 0) return {};
      base::LogWarning("A package tool has failed", {{"purpose", step.purpose},
                                                     {"status", end->exit_status},
                                                     {"said", Complaint(end->error_output)}});
    }
    if (step.may_fail) return {};
    return base::Fail(Missing(Complaints()));
  }

 private:
  struct Said {
    std::string key, complaint;
  };

  [[nodiscard]] bool IsHad(const PackageStep& step, const host::ProgramEnd& end) const {
    if (facts_.packages == PackageTool::kApt) return !step.may_fail && end.exit_status == 0;
    return end.output.find(HeaderPackage(facts_)) != std::string::npos;
  }

  base::Result<host::ProgramEnd> Run(const std::string& purpose,
                                     const std::vector<std::string>& words,
                                     const fs::path& folder = {}) {
    return RunToItsEnd({.purpose = purpose,
                        .words = words,
                        .folder = folder.string(),
                        .reads_output = true,
                        .variables = Variables(),
                        .deadline = deadline_},
                       stop_);
  }

  [[nodiscard]] std::map<std::string, std::string> Variables() const {
    auto variables = kToolVariables;
    if (!scratch_.empty()) variables["TMPDIR"] = scratch_.string();
    return variables;
  }

  // Of attempts that differ by their packages only, the last word counts.
  void Complain(const PackageStep& step, const PackageAttempt& attempt, std::string complaint) {
    if (complaint.empty()) return;
    if (!attempt.release.empty()) {
      complaint = fmt::format("of release {}: {}", attempt.release, complaint);
    }
    const auto key = step.purpose + attempt.release;
    const auto known = std::ranges::find(complaints_, key, &Said::key);
    if (known != complaints_.end()) {
      known->complaint = std::move(complaint);
    } else {
      complaints_.push_back({key, std::move(complaint)});
    }
  }

  [[nodiscard]] std::string Complaints() const {
    std::vector<std::string> texts;
    for (const auto& said : complaints_) texts.push_back(said.complaint);
    return texts.empty() ? "the package tool does not say why" : base::Join(texts, "; ");
  }

  base::Error Missing(const std::string& why) {
    return {base::Code::kUnavailable, "KernelHeadersMissing",
            fmt::format("the headers of the kernel {} cannot be had: {}. {}. Name repositories "
                        "that have them (driver.repoConfig), or use an image with modules for "
                        "this kernel",
                        facts_.kernel, why, Asked())};
  }

  [[nodiscard]] base::Error Unknown(const std::string& why) const {
    return {base::Code::kUnavailable, "KernelHeadersUnknown",
            fmt::format("whether {} can be had is not known: {}", HeaderPackage(facts_), why)};
  }

  // The tool itself knows best which repositories there are.
  std::string Asked() {
    // apt's lists are those of the image, where none are fetched.
    const bool is_apart = facts_.packages == PackageTool::kDnf || options_.refresh_packages;
    const auto end =
        Run("list the repositories",
            RepositoryQuery(facts_.packages, is_apart ? scratch_.string() : std::string()));
    if (!end || end->exit_status != 0) return "Which repositories there are is not known";
    const auto names = RepositoryNames(facts_.packages, end->output);
    if (!names.empty()) return fmt::format("The repositories are {}", base::Join(names, ", "));
    return NoRepository();
  }

  [[nodiscard]] std::string NoRepository() const {
    if (facts_.system.id() != "rhel") return "There is no repository";
    return "There is no repository: Red Hat's come with the subscription of the node, which its "
           "registration (subscription-manager) puts where the container finds it "
           "(/run/secrets/etc-pki-entitlement, /run/secrets/redhat.repo)";
  }

  // Those that the driver needs may be loaded, or part of the kernel.
  base::Status FetchModules() {
    for (const auto& package : ModulePackages(facts_)) {
      TRY_ASSIGN(const fs::path folder, MakeTemporaryFolder());
      const base::Status fetched = Unpack(package, folder);
      std::error_code error;
      fs::remove_all(folder, error);
      if (!fetched && stop_.stopped()) return fetched;
      if (!fetched) base::LogWarning("The kernel's own modules could not be had", fetched.error());
    }
    return {};
  }

  base::Status Unpack(const std::string& package, const fs::path& folder) {
    TRY(RunImageProgram({.purpose = "download the kernel's modules",
                         .words = {"apt-get", "-qq", "download", package},
                         .folder = folder.string()},
                        stop_));
    TRY_ASSIGN(const auto archives, FilesThatEndWith(folder, ".deb"));
    for (const auto& archive : archives) {
      TRY(RunImageProgram({.purpose = "unpack the kernel's modules",
                           .words = {"dpkg-deb", "--extract", archive.string(), "unpacked"},
                           .folder = folder.string()},
                          stop_));
    }
    for (const char* place : {"lib/modules", "usr/lib/modules"}) {
      const fs::path modules = folder / "unpacked" / place / facts_.kernel;
      TRY_ASSIGN(const bool there, host::IsDirectory(modules));
      if (there) TRY(CopyOver(modules, options_.places.root / "lib/modules" / facts_.kernel));
    }
    return {};
  }

  const Options& options_;
  const Facts& facts_;
  const io::StopToken& stop_;
  std::vector<Said> complaints_{};  // of the package tool
  // Of a look.
  fs::path scratch_{};
  std::optional<std::chrono::steady_clock::time_point> deadline_{};
};

}  // namespace

base::Status InstallKernelPackages(const Options& options, const Facts& facts,
                                   const io::StopToken& stop) {
  return KernelPackages(options, facts, stop).Install();
}

base::Status LookForKernelHeaders(const Options& options, const Facts& facts,
                                  const io::StopToken& stop) {
  TRY_ASSIGN(const fs::path scratch, MakeTemporaryFolder());
  const base::Status looked = KernelPackages(options, facts, stop).Look(scratch);
  std::error_code error;
  fs::remove_all(scratch, error);
  return looked;
}

void InstallCompiler(const Options& options, const Facts& facts, const std::string& name,
                     const io::StopToken& stop) {
  KernelPackages packages(options, facts, stop);
  for (const auto& step : CompilerSteps(facts, name)) {
    if (const auto taken = packages.Take(step); !taken) {
      base::LogWarning("A compiler could not be installed", taken.error());
    }
  }
}

}  // namespace pitcrew::node::driver_container

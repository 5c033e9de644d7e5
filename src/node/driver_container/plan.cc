#include "node/driver_container/plan.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace pitcrew::node::driver_container {
namespace {

// A run file is compressed; its files, and the installed copies of them, take several times as
// much.
constexpr std::uint64_t kSpaceForEachByte = 6;
// Branches before it have proprietary modules where the installer does not say.
constexpr unsigned kFirstOpenByDefault = 560;

base::Error Refuse(std::string reason, std::string message) {
  return {base::Code::kUnsupported, std::move(reason), std::move(message)};
}

bool HasModules(const Options& options, const Facts& facts) {
  const auto* version = facts.module_version.value();
  // A module that tells no version is taken for the one of this image.
  return version != nullptr && (version->empty() || *version == options.version);
}

std::string RunFileName(const Options& options) {
  return fmt::format("NVIDIA-Linux-{}-{}.run", options.architecture, options.version);
}

std::string OtherRunFiles(const Facts& facts) {
  return facts.other_run_files.empty()
             ? "no other run file either"
             : fmt::format("only {}", base::Join(facts.other_run_files, ", "));
}

base::Error NoModules(const Options& options, const Facts& facts) {
  const auto* version = facts.module_version.value();
  const std::string has = version != nullptr
                              ? fmt::format("modules of driver {} for it", *version)
                              : (facts.kernels_with_modules.empty()
                                     ? "no modules of a driver at all"
                                     : fmt::format("modules for {} only",
                                                   base::Join(facts.kernels_with_modules, ", ")));
  return Refuse(
      "NoModulesForKernel",
      fmt::format("the node's kernel is {}, and this image has {}, and no {} to compile them from "
                  "({}). Use an image that is built for this kernel, or one with the run file",
                  facts.kernel, has, RunFileName(options), OtherRunFiles(facts)));
}

base::Status CheckSpace(const Facts& facts) {
  const auto* free_bytes = facts.free_bytes.value();
  const std::uint64_t needed = facts.run_file_bytes * kSpaceForEachByte;
  if (free_bytes == nullptr || *free_bytes >= needed) return {};
  return base::Fail(Refuse(
      "LittleSpace", fmt::format("the driver's files need about {} MiB, and the container's file "
                                 "system has {} MiB free: make room on the node (images and "
                                 "containers that nobody uses, /var/lib/containerd)",
                                 needed >> 20U, *free_bytes >> 20U)));
}

}  // namespace

// In the order in which a person would look.
base::Status CheckCompilation(const Options& options, const Facts& facts) {
  if (!facts.has_compiler) {
    return base::Fail(Refuse("CompilerMissing",
                             "this image has no make, or no C compiler (gcc or cc): the kernel "
                             "modules cannot be compiled in it. Build the image with both"));
  }
  if (!facts.has_kernel_headers && facts.packages == PackageTool::kNone) {
    return base::Fail(Refuse(
        "KernelHeadersMissing",
        fmt::format("the headers of the kernel {} are not there (/lib/modules/{}/build), and this "
                    "image has neither apt-get nor dnf to install them with",
                    facts.kernel, facts.kernel)));
  }
  if (options.signing_key.empty() && facts.policy.refuses_unsigned() && facts.kernel_runs) {
    return base::Fail(Refuse(
        "UnsignedModulesRefused",
        "the node's kernel takes signed modules only (Secure Boot, lockdown or "
        "module.sig_enforce), and those that are compiled here would have no signature. Give the "
        "container a key that the node trusts (MODULE_SIGNING_KEY), use an image with signed "
        "modules for this kernel, or switch Secure Boot off"));
  }
  return {};
}

base::Result<InstallPlan> DecideInstall(const Options& options, const Facts& facts) {
  if (options.version.empty()) {
    return base::Fail(base::Invalid("DriverVersionMissing",
                                    "which driver this image carries is not said: set "
                                    "DRIVER_VERSION, as 580.95.05"));
  }
  if (options.is_vgpu_guest && options.matches_vgpu_version) {
    return base::Fail(Refuse("VgpuMatchingMissing",
                             "a guest driver that matches the host's is not looked for: leave "
                             "DISABLE_VGPU_VERSION_CHECK at \"true\", and give the image the "
                             "driver that the host's vGPU manager asks for"));
  }
  InstallPlan plan;
  const bool has_run_file = facts.run_file.is_present();
  plan.compile = !HasModules(options, facts);
  plan.install_programs = !facts.has_programs;
  plan.extract = plan.compile || plan.install_programs;
  if (plan.compile && !has_run_file) return base::Fail(NoModules(options, facts));
  if (plan.install_programs && !has_run_file) {
    return base::Fail(Refuse(
        "DriverFilesMissing",
        fmt::format("the driver's programs are not installed in this image, and {} is not in {} "
                    "({}). Build the image with the run file, or with packages that have "
                    "nvidia-smi and the "
                    "driver's libraries (make driver-image)",
                    RunFileName(options), options.places.drivers.string(), OtherRunFiles(facts))));
  }
  if (plan.extract) TRY(CheckSpace(facts));
  if (plan.compile) {
    TRY(CheckCompilation(options, facts));
    plan.fetch_headers = !facts.has_kernel_headers;
    plan.sign = !options.signing_key.empty();
  }
  return plan;
}

std::string PreflightReport(const Options& options, Facts facts,
                            const std::function<base::Status()>& look_for_headers) {
  facts.free_bytes = base::Observed<std::uint64_t>::Missing();
  const auto missing = [](const base::Error& error) {
    return fmt::format("preflight: {}: {}\n", error.reason, error.message);
  };
  const auto plan = DecideInstall(options, facts);
  if (!plan) return missing(plan.error());
  const base::Status headers = plan->fetch_headers ? look_for_headers() : base::Status();
  if (headers) return "preflight: nothing is missing\n";
  if (headers.error().reason == "KernelHeadersMissing") return missing(headers.error());
  return fmt::format("preflight: nothing is missing, as far as can be seen from here: {}\n",
                     headers.error().message);
}

std::string ModuleSourceFolder(ModuleType type, const std::optional<std::string>& recommended,
                               unsigned branch) {
  if (type == ModuleType::kOpen) return "kernel-open";
  if (type == ModuleType::kProprietary) return "kernel";
  if (recommended) return *recommended == "open" ? "kernel-open" : "kernel";
  return branch < kFirstOpenByDefault ? "kernel" : "kernel-open";
}

}  // namespace pitcrew::node::driver_container

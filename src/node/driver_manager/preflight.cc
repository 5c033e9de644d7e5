#include "node/driver_manager/preflight.h"

#include <fmt/format.h>

#include <filesystem>

#include "host/root.h"

namespace pitcrew::node::driver_manager {
namespace {

// A driver's files alone are about one.
constexpr std::uint64_t kLittleSpace = 2ULL << 30U;

base::Error Obstacle(std::string reason, std::string message) {
  return {base::Code::kUnsupported, std::move(reason), std::move(message)};
}

std::string WhyUnsignedAreRefused(const host::ModulePolicy& modules) {
  const auto* secure_boot = modules.secure_boot.value();
  const auto* lockdown = modules.lockdown.value();
  const bool locked = lockdown != nullptr && *lockdown != "none";
  return fmt::format(
      "{}{}", secure_boot != nullptr && *secure_boot ? "Secure Boot is on, " : "",
      locked ? fmt::format("kernel lockdown is \"{}\"", *lockdown) : "module.sig_enforce is set");
}

}  // namespace

BuildFacts ReadBuildFacts(const Options& options) {
  BuildFacts facts;
  facts.modules = host::ReadModulePolicy(options.sys);
  const host::Root root(options.host_root);
  if (const auto system = host::ReadOsRelease(root.At("/etc/os-release"))) {
    facts.system = system->id();
  }
  const auto keys = host::ListFolder(root.At("/etc/pki/entitlement"));
  facts.entitled = keys ? base::Observed<bool>::Present(!keys->empty())
                        : base::Observed<bool>::From(base::Fail(keys.error()));
  std::error_code error;
  const auto space = std::filesystem::space(root.path(), error);
  facts.free_bytes = error ? base::Observed<std::uint64_t>::Unknown(base::FromErrno(
                                 error.value(), "ask for the space of " + root.path().string()))
                           : base::Observed<std::uint64_t>::Present(space.available);
  return facts;
}

std::vector<base::Error> FindBuildObstacles(const BuildFacts& facts) {
  std::vector<base::Error> obstacles;
  if (facts.modules.refuses_unsigned()) {
    obstacles.push_back(Obstacle(
        "UnsignedModulesRefused",
        fmt::format("the kernel takes signed modules only ({}): a driver that is compiled on the "
                    "node is refused unless its key is enrolled in the firmware. Use modules that "
                    "the distribution has signed (driver.usePrecompiled), or switch Secure Boot "
                    "off",
                    WhyUnsignedAreRefused(facts.modules))));
  }
  const auto* entitled = facts.entitled.value();
  if (facts.system == "rhel" && !facts.entitled.is_unknown() &&
      (entitled == nullptr || !*entitled)) {
    obstacles.push_back(Obstacle(
        "EntitlementMissing",
        "/etc/pki/entitlement of the node is empty: packages with the kernel's headers are in "
        "repositories for subscribers. Register the node (subscription-manager register), or name "
        "repositories of your own (driver.repoConfig)"));
  }
  if (const auto* free_bytes = facts.free_bytes.value();
      free_bytes != nullptr && *free_bytes < kLittleSpace) {
    obstacles.push_back(Obstacle(
        "LittleSpace", fmt::format("the node's root file system has {} MiB free; a driver's files "
                                   "alone are about 1,000",
                                   *free_bytes >> 20U)));
  }
  return obstacles;
}

}  // namespace pitcrew::node::driver_manager

#include "operator/upgrade/pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "api/labels.h"
#include "desired/node_labels.h"

namespace pitcrew::gpu_operator {
namespace {

using Problems = std::vector<api::FieldProblem>;

// Nobody else reads those: no operand tells of them.
bool IsOfAnnotation(const api::FieldProblem& problem) {
  return problem.path.starts_with("metadata.annotations");
}

bool HasProblemBelow(const Problems& problems, std::initializer_list<std::string_view> paths) {
  return std::ranges::any_of(problems, [&](const api::FieldProblem& problem) {
    return std::ranges::any_of(
        paths, [&](std::string_view path) { return problem.path.starts_with(path); });
  });
}

// An annotation that cannot be used, and why; "" when there is none.
std::string UnclearAnnotation(const Problems& problems) {
  const auto found = std::ranges::find_if(problems, IsOfAnnotation);
  return found == problems.end() ? "" : fmt::format("{}: {}", found->path, found->message);
}

// Nobody knows whose the drivers are.
bool OwnerIsUnclear(const api::ClusterPolicy& policy) {
  return std::ranges::find(policy.problems, "spec.driver", &api::FieldProblem::path) !=
             policy.problems.end() ||
         HasProblemBelow(policy.problems, {"spec.driver.useNvidiaDriverCRD"});
}

UpgradePool PoolOf(const api::ClusterPolicy& policy) {
  UpgradePool pool{.driver = "",
                   .enabled = desired::NodePolicyOf(policy).driver_auto_upgrade,
                   .policy = policy.driver.upgrade_policy,
                   .path = "spec.driver.upgradePolicy",
                   .problem = UnclearAnnotation(policy.problems)};
  pool.unclear =
      !pool.problem.empty() ||
      HasProblemBelow(policy.problems, {pool.path, "spec.driver.enabled", "spec.sandboxWorkloads"});
  return pool;
}

UpgradePool PoolOf(const api::NvidiaDriver& driver) {
  UpgradePool pool{.driver = driver.name,
                   .enabled = driver.driver.upgrade_policy.auto_upgrade &&
                              driver.type != api::kDriverTypeVgpuHost,
                   .policy = driver.driver.upgrade_policy,
                   .path = "spec.upgradePolicy",
                   .problem = UnclearAnnotation(driver.problems)};
  const bool no_spec =
      std::ranges::find(driver.problems, "spec", &api::FieldProblem::path) != driver.problems.end();
  pool.unclear = no_spec || !pool.problem.empty() ||
                 HasProblemBelow(driver.problems, {pool.path, "spec.driverType"});
  return pool;
}

// The active policy, where it says whose the drivers are.
std::shared_ptr<const desired::PolicyView> PolicyOf(const World& world) {
  auto view = world.ActivePolicy();
  // Beside a GPUCluster nothing is done.
  if (view == nullptr || !world.GpuClusters().empty() || OwnerIsUnclear(view->policy)) {
    return nullptr;
  }
  return view;
}

}  // namespace

std::vector<UpgradePool> UpgradePoolsOf(const World& world) {
  const auto view = PolicyOf(world);
  if (view == nullptr) return {};
  if (!view->policy.driver.use_nvidia_driver_crd) return {PoolOf(view->policy)};
  std::vector<UpgradePool> pools;
  for (const auto& driver : world.Drivers()) {
    if (!driver->deleting) pools.push_back(PoolOf(driver->driver));
  }
  return pools;
}

std::optional<UpgradePool> UpgradePoolOf(const World& world, const desired::Node& node) {
  const auto view = PolicyOf(world);
  if (view == nullptr) return std::nullopt;
  const auto known = [](UpgradePool pool) {
    return pool.unclear ? std::nullopt : std::optional(std::move(pool));
  };
  if (!view->policy.driver.use_nvidia_driver_crd) return known(PoolOf(view->policy));
  const auto assignment = world.Assignment();
  if (assignment == nullptr) return std::nullopt;
  const std::string_view owner = node.labels.Get(api::kDriverOwner);
  if (const api::NvidiaDriver* driver = assignment->Named(owner)) return known(PoolOf(*driver));
  // Somebody's driver will be for it.
  const auto choice = assignment->Of(node.labels);
  if (node.gpu_present() && (choice.open || choice.driver != nullptr)) return std::nullopt;
  return UpgradePool{};
}

bool IsSameForUpgrades(const desired::PolicyView& a, const desired::PolicyView& b) {
  return PoolOf(a.policy) == PoolOf(b.policy) &&
         a.policy.driver.use_nvidia_driver_crd == b.policy.driver.use_nvidia_driver_crd &&
         OwnerIsUnclear(a.policy) == OwnerIsUnclear(b.policy) &&
         desired::NodePolicyOf(a.policy) == desired::NodePolicyOf(b.policy) &&
         a.deleting == b.deleting;
}

bool IsSameForUpgrades(const desired::DriverView& a, const desired::DriverView& b) {
  return PoolOf(a.driver) == PoolOf(b.driver) && a.driver.uid == b.driver.uid &&
         a.driver.node_selector == b.driver.node_selector &&
         a.driver.is_default == b.driver.is_default && a.deleting == b.deleting;
}

}  // namespace pitcrew::gpu_operator

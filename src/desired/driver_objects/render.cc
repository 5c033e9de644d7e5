#include "desired/driver_objects/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "desired/operands/driver_files.h"
#include "desired/owned_object.h"
#include "desired/pod.h"
#include "desired/render.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kState = "state-driver";

// From this version on GPUDirect Storage works with open kernel modules only (clusterpolicy-api.md
// section 3.3). A text that is no version is not taken for a newer one.
bool NeedsOpenModules(const api::NvidiaDriver& driver) {
  if (!driver.gds.enabled.value_or(false)) return false;
  std::string_view text = driver.gds.image.version;
  if (text.starts_with("sha256")) return true;
  if (text.starts_with('v')) text.remove_prefix(1);
  text = text.substr(0, text.find('+'));
  const std::size_t dash = text.find('-');
  const auto pieces = base::Split(text.substr(0, dash), '.');
  std::array<std::uint64_t, 3> version{};
  if (pieces.empty() || pieces.size() > version.size()) return false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto number = base::ParseUnsigned(pieces[i]);
    // A number of a semantic version has no leading zero; those of drivers have ("570.172.08").
    if (!number || (pieces[i].size() > 1 && pieces[i].starts_with('0'))) return false;
    version[i] = *number;
  }
  constexpr std::array<std::uint64_t, 3> kFirst{2, 17, 5};
  const bool prerelease = dash != std::string_view::npos;
  return version > kFirst || (version == kFirst && !prerelease);
}

// The settings that a ClusterPolicy has for all its DaemonSets, as the driver has them for its own.
api::ClusterPolicy CommonSettings(const api::NvidiaDriver& driver) {
  api::ClusterPolicy settings;
  settings.daemonsets = driver.pods;
  if (!driver.pods.tolerations.empty()) {
    // In place of the manifest's, which comes first all the same.
    const codec::Json own = {
        {"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}};
    settings.daemonsets.tolerations.insert(settings.daemonsets.tolerations.begin(), own);
  }
  return settings;
}

const Object* DaemonSetOf(const std::vector<Object>& objects) {
  const auto found = std::ranges::find(objects, "DaemonSet", [](const Object& object) {
    return codec::FindString(object, {"kind"});
  });
  return found == objects.end() ? nullptr : &*found;
}

std::string HashAnnotation(const Object* object) {
  return object == nullptr ? "" : AppliedHash(*object);
}

base::Result<std::vector<Object>> RenderPool(const api::NvidiaDriver& driver,
                                             const DriverPool& pool, const DriverScene& scene) {
  api::ClusterPolicy settings = CommonSettings(driver);
  settings.validator.qualification_required = scene.qualification_required;
  Facts facts = scene.facts;
  facts.gpu_nodes = pool.nodes;
  DriverSpec spec{.type = driver.type,
                  .driver = driver.driver,
                  .gds = driver.gds,
                  .gdrcopy = driver.gdrcopy,
                  .pool = pool,
                  .host_root = scene.host_root};
  const std::string name = DriverAppName(driver, pool);
  const Context context{.policy = settings,
                        .facts = facts,
                        .images = scene.images,
                        .operator_namespace = scene.operator_namespace,
                        .owner = Owner::Of(driver),
                        .driver_spec = &spec,
                        .placement = Placement{.daemonset = name,
                                               .name = DriverObjectName(driver, pool),
                                               .node_selector = pool.node_selector},
                        .operands = scene.operands};
  const Operand* operand = scene.operands.OfState(kState);
  if (operand == nullptr)
    return base::Fail(base::Internal("NoDriver", "there is no driver operand"));
  TRY_ASSIGN(auto objects, RenderObjects(*operand, context));
  const OwnedObject* standing = scene.standing(name);
  const bool default_manager = driver.driver.manager.image.image.empty();
  if (!default_manager || standing == nullptr || standing->manager_image.empty() ||
      standing->hash == HashAnnotation(DaemonSetOf(objects))) {
    return objects;
  }
  spec.manager_image = standing->manager_image;
  TRY_ASSIGN(auto kept, RenderObjects(*operand, context));
  return standing->hash == HashAnnotation(DaemonSetOf(kept)) ? kept : objects;
}

}  // namespace

std::vector<api::FieldProblem> CheckDriver(const api::NvidiaDriver& driver) {
  std::vector<api::FieldProblem> problems = driver.problems;
  // Wrong annotations concern upgrades alone, whose own condition tells of them.
  std::erase_if(problems, [](const api::FieldProblem& problem) {
    return problem.path.starts_with("metadata.annotations");
  });
  for (const api::Component* sidecar : {&driver.gds, &driver.gdrcopy}) {
    if (driver.driver.use_precompiled && sidecar->enabled.value_or(false)) {
      problems.push_back({sidecar->path + ".enabled",
                          "not supported together with spec.usePrecompiled: there are no "
                          "precompiled modules of it"});
    }
  }
  if (NeedsOpenModules(driver) && driver.driver.kernel_module_type != "open") {
    problems.push_back({"spec.kernelModuleType",
                        fmt::format("is \"{}\", must be \"open\" with spec.gds.version {}",
                                    driver.driver.kernel_module_type, driver.gds.image.version)});
  }
  return problems;
}

base::Result<std::vector<Object>> RenderDriver(const api::NvidiaDriver& driver,
                                               const DriverPools& pools, const DriverScene& scene) {
  std::vector<std::string> messages;
  for (const api::FieldProblem& problem : CheckDriver(driver)) {
    messages.push_back(fmt::format("{}: {}", problem.path, problem.message));
  }
  if (!messages.empty()) {
    return base::Fail(base::Invalid("InvalidDriver", base::Join(messages, "; ")));
  }
  // Also where no node is its own yet, as upstream does.
  TRY(CheckSecretEnv(driver.driver, scene.facts, scene.operator_namespace));
  std::vector<Object> all;
  for (const DriverPool& pool : pools.pools) {
    TRY_ASSIGN(auto objects, RenderPool(driver, pool, scene));
    for (Object& object : objects) {
      // Pools of one operating system have all but their DaemonSets in common.
      const auto same = [&](const Object& known) {
        return NameOf(known) == NameOf(object) && known["kind"] == object["kind"];
      };
      if (std::ranges::none_of(all, same)) all.push_back(std::move(object));
    }
  }
  return all;
}

References ReferencesOf(const api::NvidiaDriver& driver) {
  References references;
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (!name.empty()) names.push_back(name);
  };
  add(references.config_maps, driver.driver.kernel_module_config);
  if (!driver.driver.use_precompiled) {
    add(references.config_maps, driver.driver.repo_config);
    add(references.config_maps, driver.driver.cert_config);
  }
  add(references.config_maps, driver.driver.virtual_topology_config);
  add(references.config_maps, driver.driver.licensing.config_map_name);
  add(references.secrets, driver.driver.licensing.secret_name);
  add(references.secrets, driver.driver.secret_env);
  return references;
}

}  // namespace pitcrew::desired

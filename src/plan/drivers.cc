#include "plan/drivers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "api/labels.h"
#include "api/schema.h"
#include "base/strings.h"
#include "desired/cluster_kinds.h"
#include "desired/driver_objects/render.h"
#include "desired/owned_object.h"
#include "plan/difference.h"
#include "plan/field_problems.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using desired::DriverView;
using snapshot::Snapshot;

std::string ChangedFields(const Json& stored, const Json& given) {
  static const Json kNone = Json::object();
  const auto spec = [](const Json& object) -> const Json& {
    const Json* found = codec::Find(object, {"spec"});
    return found == nullptr ? kNone : *found;
  };
  std::vector<std::string> paths;
  std::set<std::string> members;
  for (const Json* one : {&spec(stored), &spec(given)}) {
    for (const auto& [name, value] : one->items()) members.insert(name);
  }
  for (const std::string& name : members) {
    const Json* before = codec::Find(spec(stored), {name});
    const Json* after = codec::Find(spec(given), {name});
    // What the API server fills in is no change.
    if (after == nullptr || (before != nullptr && *before == *after)) continue;
    paths.push_back(PathOfMember("spec", name));
  }
  return base::Join(paths, ", ");
}

std::string NameOf(const api::NvidiaDriver& driver) { return "NVIDIADriver " + driver.name; }

std::shared_ptr<const DriverView> Shared(DriverView view) {
  return std::make_shared<const DriverView>(std::move(view));
}

// What its own selector, or that of another one, keeps it from.
void CheckSelectors(const WantedDrivers& drivers, const PlannedCluster& cluster,
                    std::vector<Problem>& problems) {
  for (const auto& view : drivers.views) {
    if (auto problem = desired::SelectorProblem(view->driver); !problem.empty()) {
      problems.push_back({.where = NameOf(view->driver), .message = problem});
    }
  }
  const auto& assignment = *cluster.drivers;
  if (!assignment.rival_defaults().empty()) {
    problems.push_back(
        {.where = "NVIDIADrivers " + base::Join(assignment.rival_defaults(), ", "),
         .message = "spec.default: only one may be the default; nodes that no other one selects "
                    "keep what they have"});
  }
  std::map<std::vector<std::string>, std::vector<std::string>> nodes;  // by rivals
  for (const auto& node : cluster.labelled) {
    if (!node->gpu_present()) continue;
    if (auto rivals = assignment.Of(node->labels).rivals; !rivals.empty()) {
      nodes[std::move(rivals)].push_back(node->name);
    }
  }
  for (const auto& [rivals, names] : nodes) {
    problems.push_back(
        {.where = "NVIDIADrivers " + base::Join(rivals, ", "),
         .message =
             fmt::format("spec.nodeSelector: they all select {}, which {}", base::Join(names, ", "),
                         names.size() == 1 ? "keeps what it has" : "keep what they have")});
  }
}

// Whether the driver stands in the way of itself or of another one: the operator carries it out no
// further then.
bool IsRival(const api::NvidiaDriver& driver, const PlannedCluster& cluster) {
  if (!desired::SelectorProblem(driver).empty()) return true;
  const auto& defaults = cluster.drivers->rival_defaults();
  if (std::ranges::find(defaults, driver.name) != defaults.end()) return true;
  return std::ranges::any_of(cluster.labelled, [&](const auto& node) {
    const auto rivals = cluster.drivers->Of(node->labels).rivals;
    return std::ranges::find(rivals, driver.name) != rivals.end();
  });
}

}  // namespace

base::Result<WantedDrivers> ReadWantedDrivers(const Snapshot& snapshot,
                                              const std::vector<Json>& given) {
  WantedDrivers wanted;
  std::map<std::string, std::shared_ptr<const DriverView>> by_name;
  std::map<std::string, const Json*> objects;
  if (const base::Error* error = snapshot.error(desired::kNvidiaDrivers)) wanted.unread = *error;
  const auto& standing = snapshot.All(desired::kNvidiaDrivers);
  for (const auto& [key, object] : standing) {
    TRY_ASSIGN(auto view, desired::ReadDriverView(object));
    if (view.deleting) continue;
    objects[key.name] = &object;
    by_name[key.name] = Shared(std::move(view));
  }
  for (const Json& object : given) {
    TRY_ASSIGN(auto view, desired::ReadDriverView(object));
    if (view.driver.name.empty()) {
      return base::Fail(base::Invalid("InvalidDriver", "NVIDIADriver: metadata.name: is required"));
    }
    const std::string name = view.driver.name;
    const auto stored = standing.find({.namespace_name = "", .name = name});
    if (stored != standing.end()) {
      view.driver.uid = codec::FindString(stored->second, {"metadata", "uid"});
      wanted.changed_fields[name] = ChangedFields(stored->second, object);
    }
    objects[name] = &object;
    by_name[name] = Shared(std::move(view));
  }
  for (auto& [name, view] : by_name) {
    const auto stored = standing.find({.namespace_name = "", .name = name});
    std::ranges::move(
        ProblemsOfFields(NameOf(view->driver),
                         {api::CheckNvidiaDriver(
                              *objects[name], stored == standing.end() ? nullptr : &stored->second),
                          view->driver.problems, desired::CheckDriver(view->driver)}),
        std::back_inserter(wanted.problems));
    wanted.views.push_back(std::move(view));
  }
  return wanted;
}

desired::References ReferencesOf(const WantedDrivers& drivers) {
  desired::References all;
  for (const auto& view : drivers.views) {
    desired::References own = desired::ReferencesOf(view->driver);
    std::ranges::move(own.config_maps, std::back_inserter(all.config_maps));
    std::ranges::move(own.secrets, std::back_inserter(all.secrets));
  }
  return all;
}

std::vector<snapshot::Query> QueriesOfDrivers(const Snapshot& snapshot,
                                              const std::vector<Json>& given,
                                              const std::string& operator_namespace) {
  std::vector<snapshot::Query> queries;
  const auto drivers = ReadWantedDrivers(snapshot, given);
  if (!drivers) return queries;
  for (const std::string& name : ReferencesOf(*drivers).secrets) {
    queries.push_back({.kind = kube::kSecrets, .namespace_name = operator_namespace, .name = name});
  }
  return queries;
}

std::vector<PlannedDriver> PlanDrivers(const WantedDrivers& drivers, const Snapshot& snapshot,
                                       const api::ClusterPolicy& policy,
                                       const PlannedCluster& cluster, const Options& options,
                                       std::vector<Problem>& problems) {
  std::vector<PlannedDriver> planned;
  const bool wanted = policy.driver.use_nvidia_driver_crd;
  if (wanted && drivers.unread) {
    problems.push_back(
        {.where = "nvidiadrivers", .message = drivers.unread->message, .unread = true});
    return planned;
  }
  if (wanted) CheckSelectors(drivers, cluster, problems);
  std::map<std::string, desired::OwnedObject> read;
  const auto standing = [&](const std::string& name) -> const desired::OwnedObject* {
    const Json* object = snapshot.FindPresent(
        kube::kDaemonSets, {.namespace_name = options.operator_namespace, .name = name});
    return object == nullptr ? nullptr : &(read[name] = desired::ReadOwned(*object));
  };
  for (const auto& view : drivers.views) {
    PlannedDriver& driver = planned.emplace_back();
    driver.view = view;
    driver.rendered = {.operand = desired::Operands().OfState(desired::kDriverState),
                       .mode = wanted ? desired::Mode::kEnabled : desired::Mode::kDelegated,
                       .objects = std::vector<desired::Object>{}};
    if (!wanted) continue;
    if (IsRival(view->driver, cluster)) {
      driver.keeps_all = true;
      continue;
    }
    const desired::DriverPools pools =
        desired::PoolsOf(cluster.labelled, view->driver, cluster.facts.openshift());
    driver.keeps_all = !pools.unknown.empty();
    driver.rendered.objects =
        desired::RenderDriver(view->driver, pools,
                              {.facts = cluster.facts,
                               .images = options.images,
                               .operator_namespace = options.operator_namespace,
                               .host_root = policy.host_paths.root_fs,
                               .qualification_required = policy.validator.qualification_required,
                               .standing = standing});
    if (driver.rendered.objects) continue;
    const base::Error& error = driver.rendered.objects.error();
    // The fields themselves are told already.
    problems.push_back({.where = NameOf(view->driver),
                        .message = error.reason == "InvalidDriver"
                                       ? "not planned because of these fields"
                                       : error.message});
    driver.rendered.objects = std::vector<desired::Object>{};
    driver.keeps_all = true;
  }
  return planned;
}

}  // namespace pitcrew::plan

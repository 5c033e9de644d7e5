#include "operator/drivers/driver_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/labels.h"
#include "base/log.h"
#include "base/strings.h"
#include "desired/cluster_kinds.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using desired::DriverOutcome;
using desired::DriverState;

// Changes that come in bursts (nodes joining, pods becoming ready) are looked at together.
constexpr std::chrono::milliseconds kTogether{100};
constexpr std::string_view kFailed = "ReconcileFailed";

StatusSubject SubjectOf(const desired::DriverView& view) {
  return {.owner = desired::Owner::Of(view.driver), .status = view.status, .version = view.version};
}

DriverOutcome NotReady(std::string_view reason, std::string message) {
  return {.state = DriverState::kNotReady,
          .reason = std::string(reason),
          .message = std::move(message)};
}

// Of a node, what decides which driver it gets and in which pool it is.
bool SameForDrivers(const desired::Node& a, const desired::Node& b) { return a.labels == b.labels; }

desired::Retry RetryOf(const desired::OperandReport& report) {
  return report.verdict == desired::Verdict::kFailed ? report.retry : desired::Retry::kWhenChanged;
}

bool SameForDriver(const desired::OwnedObject& a, const desired::OwnedObject& b) {
  return a.fingerprint == b.fingerprint && a.daemonset == b.daemonset && a.keys == b.keys &&
         a.data_digest == b.data_digest && a.deleting == b.deleting && a.state == b.state &&
         a.driver_object == b.driver_object;
}

}  // namespace

DriverController::DriverController(World& world, kube::EventRecorder& events,
                                   DriverControllerOptions options)
    : world_(world),
      options_(std::move(options)),
      controller_({.name = "nvidiadrivers", .workers = 1, .synced = options_.synced},
                  [this](const kube::ObjectKey& key, const io::StopToken& stop) {
                    return Reconcile(key, stop);
                  }),
      status_writer_(world_.client, desired::kNvidiaDrivers, events, options_.progress_interval,
                     [this](const std::string& name, std::chrono::nanoseconds delay) {
                       controller_.EnqueueAfter({.namespace_name = "", .name = name}, delay);
                     }),
      facts_(world_, [this] { EnqueueAllSoon(); }) {
  WatchSources();
}

void DriverController::WatchSources() {
  // What one driver selects concerns them all.
  controller_.Watch<desired::DriverView>(
      *world_.drivers,
      [this](const kube::Change<desired::DriverView>& change, const auto& enqueue) {
        if (change.before != nullptr &&
            (change.now == nullptr || change.now->driver.uid != change.before->driver.uid)) {
          Forget(change.key.name);
        }
        enqueue(change.key);
        EnqueueAllSoon();
      });
  controller_.Watch<desired::PolicyView>(
      world_.policies, [this](const kube::Change<desired::PolicyView>& change, const auto&) {
        const auto wants = [](const desired::PolicyView& view) {
          return std::tuple(view.policy.uid, view.policy.driver.use_nvidia_driver_crd,
                            view.policy.host_paths.root_fs,
                            view.policy.validator.qualification_required, view.deleting);
        };
        if (change.before != nullptr && change.now != nullptr &&
            wants(*change.before) == wants(*change.now)) {
          return;
        }
        EnqueueAllSoon();
      });
  controller_.Watch<desired::Node>(world_.nodes,
                                   [this](const kube::Change<desired::Node>& change, const auto&) {
                                     if (change.before != nullptr && change.now != nullptr &&
                                         SameForDrivers(*change.before, *change.now)) {
                                       return;
                                     }
                                     EnqueueAllSoon();
                                   });
  if (world_.gpu_clusters) {
    controller_.Watch<bool>(*world_.gpu_clusters,
                            [this](const kube::Change<bool>&, const auto&) { EnqueueAllSoon(); });
  }
  for (Inventory::Kind& kind : world_.inventory.kinds()) {
    const kube::ResourceKind* resource = kind.kind;
    controller_.Watch<desired::OwnedObject>(
        *kind.informer,
        [this, resource](const kube::Change<desired::OwnedObject>& change, const auto&) {
          if (change.now == nullptr) {
            const std::lock_guard lock(mutex_);
            for (auto& [name, own] : rollouts_) own.rollout->Forget(*resource, change.key);
          } else if (change.before != nullptr && SameForDriver(*change.before, *change.now)) {
            return;
          }
          // Other operands' objects are the policy's.
          const auto concerns = [&](const auto& object) {
            return object != nullptr &&
                   (object->state == desired::kDriverState || *resource == kube::kConfigMaps);
          };
          if (concerns(change.before) || concerns(change.now)) EnqueueAllSoon();
        });
  }
}

void DriverController::EnqueueAllSoon() {
  for (const auto& [key, view] : world_.drivers->store().Snapshot()) {
    controller_.EnqueueAfter(key, kTogether);
  }
}

std::shared_ptr<Rollout> DriverController::RolloutOf(const desired::DriverView& view) {
  const std::lock_guard lock(mutex_);
  Own& own = rollouts_[view.driver.name];
  if (own.rollout == nullptr || own.uid != view.driver.uid) {
    own = {.uid = view.driver.uid,
           .rollout =
               std::make_shared<Rollout>(world_.client, world_.inventory, world_.operator_namespace,
                                         view.driver.uid, world_.operands, view.driver.name)};
  }
  return own.rollout;
}

void DriverController::Forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = rollouts_.find(name);
  if (found == rollouts_.end()) return;
  found->second.rollout->End();
  rollouts_.erase(found);
}

base::Result<kube::Action> DriverController::Reconcile(const kube::ObjectKey& key,
                                                       const io::StopToken& stop) {
  const auto found = world_.drivers->store().Find(key);
  if (found.is_unknown()) return base::Fail(*found.error());
  if (found.is_absent() || (*found.value())->deleting) {
    // Its objects go with it: they are its own (ownerReferences).
    Forget(key.name);
    return kube::Action::Done();
  }
  const desired::DriverView& view = **found.value();
  const std::shared_ptr<Rollout> rollout = RolloutOf(view);
  rollout->BeginPass();
  Pass pass = Look(view, *rollout, stop);
  pass.outcome.upgrade_stopped = options_.upgrade_stopped(view.driver.name);
  if (stop.stopped() || rollout->ended()) return kube::Action::Done();
  TRY(status_writer_.Write(
      SubjectOf(view),
      [&](const Json& previous) {
        return desired::MakeDriverStatus(pass.outcome, world_.operator_namespace,
                                         view.driver.generation, previous, base::WallClock::now());
      },
      stop));
  if (pass.retry == desired::Retry::kSoon) {
    return base::Fail(base::Unavailable(pass.outcome.reason, pass.outcome.message));
  }
  if (rollout->pending()) return kube::Action::RequeueAfter(kEchoTimeout);
  if (pass.retry == desired::Retry::kLater)
    return kube::Action::RequeueAfter(options_.refusal_retry);
  return kube::Action::Done();
}

DriverController::Pass DriverController::Look(const desired::DriverView& view, Rollout& rollout,
                                              const io::StopToken& stop) {
  const auto policy = world_.ActivePolicy();
  if (policy == nullptr) {
    return {.outcome = NotReady(
                "NoClusterPolicy",
                "there is no ClusterPolicy, which says that drivers are those of NVIDIADriver "
                "objects (spec.driver.useNvidiaDriverCRD); its DaemonSets are left as they are")};
  }
  if (!policy->policy.driver.use_nvidia_driver_crd) return HandBack(rollout, stop);
  if (const auto clusters = world_.GpuClusters(); !clusters.empty()) {
    return {.outcome = NotReady(
                kFailed, desired::GpuClusterConflict(clusters.front(), policy->policy.name))};
  }
  const auto assignment = world_.Assignment();
  if (assignment == nullptr || !world_.nodes.store().synced()) {
    return {.outcome = NotReady("DriverNotReady", "the nodes are being read")};
  }
  if (auto conflict = Conflict(view, *assignment)) return {.outcome = *std::move(conflict)};
  Pass pass = RollOut(view, policy->policy, rollout, stop);
  const std::size_t joining = NodesToCome(view.driver.name, *assignment);
  if (pass.outcome.state == DriverState::kReady && joining > 0) {
    pass.outcome.state = DriverState::kNotReady;
    pass.outcome.reason = "DriverNotReady";
    pass.outcome.message = fmt::format("{} more node{} about to be given this driver", joining,
                                       joining == 1 ? " is" : "s are");
  }
  return pass;
}

std::size_t DriverController::NodesToCome(const std::string& driver,
                                          const desired::DriverAssignment& assignment) const {
  const auto nodes = world_.AllNodes();
  return static_cast<std::size_t>(std::ranges::count_if(nodes, [&](const auto& node) {
    if (node == nullptr || !node->gpu_present() || node->labels.Is(api::kDriverOwner, driver)) {
      return false;
    }
    const auto choice = assignment.Of(node->labels);
    return choice.driver != nullptr && choice.driver->name == driver;
  }));
}

std::optional<DriverOutcome> DriverController::Conflict(
    const desired::DriverView& view, const desired::DriverAssignment& assignment) const {
  constexpr std::string_view kConflict = "ConflictingNodeSelector";
  if (std::string problem = desired::SelectorProblem(view.driver); !problem.empty()) {
    return NotReady(kConflict, std::move(problem));
  }
  if (view.driver.is_default && !assignment.rival_defaults().empty()) {
    return NotReady(kFailed,
                    fmt::format("spec.default: multiple default NVIDIADrivers found: [{}]; nodes "
                                "that no other driver selects stay as they are",
                                base::Join(assignment.rival_defaults(), " ")));
  }
  if (view.driver.is_default) return std::nullopt;
  for (const auto& node : world_.AllNodes()) {
    if (node == nullptr) continue;
    const auto choice = assignment.Of(node->labels);
    if (std::ranges::find(choice.rivals, view.driver.name) == choice.rivals.end()) continue;
    return NotReady(kConflict, fmt::format("spec.nodeSelector: conflicting NVIDIADrivers {} all "
                                           "select node {}, which stays as it is",
                                           base::Join(choice.rivals, ", "), node->name));
  }
  return std::nullopt;
}

base::Result<desired::Facts> DriverController::Facts(const io::StopToken& stop) {
  // Of all drivers: what none refers to is no longer watched.
  desired::References all;
  for (const auto& view : world_.Drivers()) {
    if (view->deleting) continue;
    desired::References own = desired::ReferencesOf(view->driver);
    std::ranges::move(own.config_maps, std::back_inserter(all.config_maps));
    std::ranges::move(own.secrets, std::back_inserter(all.secrets));
  }
  return facts_.Gather(all, stop);
}

const desired::OwnedObject* DriverController::Standing(const std::string& name) {
  const auto found = world_.inventory.StoreOf(kube::kDaemonSets)
                         ->Find({.namespace_name = world_.operator_namespace, .name = name});
  standing_ = found.is_present() ? *found.value() : nullptr;
  return standing_.get();
}

DriverController::Pass DriverController::RollOut(const desired::DriverView& view,
                                                 const api::ClusterPolicy& policy, Rollout& rollout,
                                                 const io::StopToken& stop) {
  const auto facts = Facts(stop);
  if (!facts) {
    return {.outcome = NotReady(kFailed, facts.error().message), .retry = desired::Retry::kSoon};
  }
  const desired::DriverPools pools =
      desired::PoolsOf(world_.AllNodes(), view.driver, facts->openshift());
  desired::RenderedOperand rendered{
      .operand = world_.operands.OfState(desired::kDriverState),
      .mode = desired::Mode::kEnabled,
      .objects = desired::RenderDriver(
          view.driver, pools,
          {.facts = *facts,
           .images = options_.images,
           .operator_namespace = world_.operator_namespace,
           .host_root = policy.host_paths.root_fs,
           .qualification_required = policy.validator.qualification_required,
           .standing = [this](const std::string& name) { return Standing(name); },
           .operands = world_.operands})};
  // A node of unknown system may have its driver from any of the DaemonSets that stand.
  if (pools.unknown.empty()) rollout.DecideRemovals({&rendered, 1}, stop);
  const desired::OperandReport report = rollout.Run(rendered, stop);
  return {.outcome = desired::OutcomeOf(report, view.driver, pools), .retry = RetryOf(report)};
}

DriverController::Pass DriverController::HandBack(Rollout& rollout, const io::StopToken& stop) {
  const desired::RenderedOperand rendered{.operand = world_.operands.OfState(desired::kDriverState),
                                          .mode = desired::Mode::kDelegated,
                                          .objects = std::vector<desired::Object>{}};
  rollout.DecideRemovals({&rendered, 1}, stop);
  const desired::OperandReport report = rollout.Run(rendered, stop);
  const bool failed = report.verdict == desired::Verdict::kFailed;
  return {.outcome = {.state = DriverState::kDisabled,
                      .reason = "Reconciled",
                      .message = failed ? report.message
                                        : "the ClusterPolicy describes the driver "
                                          "(spec.driver.useNvidiaDriverCRD is not true)"},
          .retry = RetryOf(report)};
}

}  // namespace pitcrew::gpu_operator

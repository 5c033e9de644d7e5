#include "operator/runner.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "desired/cluster_kinds.h"
#include "desired/removal_budget.h"
#include "kube/events.h"
#include "kube/leader.h"
#include "kube/projection.h"
#include "operator/definitions/definition_controller.h"
#include "operator/drivers/driver_controller.h"
#include "operator/metrics/collectors.h"
#include "operator/nodes/node_controller.h"
#include "operator/policy/policy_controller.h"
#include "operator/upgrade/upgrade_controller.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {
namespace {

// Asks until the server answers: an operator that starts before its API server waits for it.
base::Result<ClusterIdentity> WaitForIdentity(kube::Client& client, const io::StopToken& stop) {
  std::chrono::milliseconds delay{200};
  while (true) {
    auto identity = ReadClusterIdentity(client, stop);
    if (identity || identity.error().code == base::Code::kCancelled) return identity;
    base::LogWarning("the API server does not yet say what it serves; asking again",
                     identity.error());
    if (stop.WaitFor(delay)) return identity;
    delay = std::min(delay * 2, std::chrono::milliseconds(5000));
  }
}

// Watches one CustomResourceDefinition, and calls `changed` when it is served and was not, or the
// other way round.
class DefinitionWatch {
 public:
  DefinitionWatch(const std::shared_ptr<kube::Client>& client, std::string_view name,
                  bool was_served, const std::function<void()>& changed)
      : informer_(client, kube::kCustomResourceDefinitions,
                  kube::ProjectJson<bool>([](const codec::Json& object) -> base::Result<bool> {
                    return desired::IsEstablished(object);
                  }),
                  {.field_selector = "metadata.name=" + std::string(name)}) {
    informer_.AddHandler([was_served, changed](const kube::Change<bool>& change) {
      if ((change.now != nullptr && *change.now) != was_served) changed();
    });
    informer_.Start();
  }

 private:
  kube::Informer<bool> informer_;
};

using Task = std::function<base::Status(const io::StopToken&)>;

// Runs all of `tasks`; whichever ends first ends the others by `source`. The first failure.
base::Status RunTogether(const std::vector<Task>& tasks, const io::StopSource& source) {
  std::vector<base::Status> statuses(tasks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      threads.emplace_back([&, i] {
        statuses[i] = tasks[i](source.token());
        source.Stop();
      });
    }
  }
  for (const base::Status& status : statuses) {
    if (!status && status.error().code != base::Code::kCancelled) return status;
  }
  return {};
}

// All controllers, and what each is told by the others.
class Controllers {
 public:
  // All that is given is borrowed, and outlives it.
  Controllers(const std::shared_ptr<kube::Client>& client, const ClusterIdentity& identity,
              const RunnerOptions& options, World& world, desired::RemovalBudget& budget,
              kube::EventRecorder& events, Metrics& metrics, const std::function<void()>& synced)
      : nodes_(world, options.removal_grace, budget, events, synced),
        definitions_(client, options.manage_definitions, [this] { policies_.EnqueuePolicies(); }),
        upgrades_(
            world, metrics, events,
            [this] {
              policies_.EnqueuePolicies();
              if (drivers_) drivers_->EnqueueAllSoon();
            },
            synced),
        policies_(world, metrics, events,
                  {.images = options.images,
                   .removals_held = [this] { return nodes_.removals_held(); },
                   .schema_outdated = [this] { return definitions_.outdated(); },
                   .upgrade_stopped = [this] { return upgrades_.stopped(""); },
                   .upgrades_incomplete = [this] { return upgrades_.incomplete(); },
                   .progress_interval = options.progress_interval,
                   .refusal_retry = options.refusal_retry,
                   .synced = synced}) {
    if (identity.nvidia_drivers) {
      drivers_.emplace(world, events,
                       DriverControllerOptions{
                           .images = options.images,
                           .upgrade_stopped =
                               [this](const std::string& name) { return upgrades_.stopped(name); },
                           .progress_interval = options.progress_interval,
                           .refusal_retry = options.refusal_retry,
                           .synced = synced});
    }
    if (options.permitted_devices.names != nullptr) {
      devices_.emplace(world, events, options.permitted_devices);
    }
  }
  // They point to each other.
  Controllers(const Controllers&) = delete;
  Controllers& operator=(const Controllers&) = delete;

  // How many of them call `synced`.
  static int CountSynced(const ClusterIdentity& identity) {
    return identity.nvidia_drivers ? 4 : 3;
  }

  void Expose(prom::Exposition& exposition) const {
    ExposeController(nodes_.statistics(), exposition);
    ExposeController(policies_.statistics(), exposition);
    ExposeController(definitions_.statistics(), exposition);
    if (drivers_) ExposeController(drivers_->statistics(), exposition);
    if (devices_) ExposeController(devices_->statistics(), exposition);
    ExposeController(upgrades_.statistics(), exposition);
    upgrades_.Expose(exposition);
  }

  // Whichever ends first ends the others by `source`.
  base::Status Run(const io::StopSource& source) {
    std::vector<Task> tasks = {[&](const io::StopToken& token) { return nodes_.Run(token); },
                               [&](const io::StopToken& token) { return policies_.Run(token); },
                               [&](const io::StopToken& token) { return definitions_.Run(token); },
                               [&](const io::StopToken& token) { return upgrades_.Run(token); }};
    if (drivers_) {
      tasks.emplace_back([&](const io::StopToken& token) { return drivers_->Run(token); });
    }
    if (devices_) {
      tasks.emplace_back([&](const io::StopToken& token) { return devices_->Run(token); });
    }
    return RunTogether(tasks, source);
  }

 private:
  NodeController nodes_;
  DefinitionController definitions_;
  UpgradeController upgrades_;
  PolicyController policies_;
  std::optional<DriverController> drivers_;
  std::optional<PermittedDeviceController> devices_;
};

// One life of the controllers; true when the cluster has become another one, or more labels of
// nodes are wanted, and they have to start anew.
base::Result<bool> RunOnce(const std::shared_ptr<kube::Client>& client,
                           const ClusterIdentity& identity, const RunnerOptions& options,
                           desired::LabelKeys& node_labels, desired::RemovalBudget& budget,
                           Metrics& metrics, const io::StopToken& stop) {
  const io::StopSource source = io::StopSource::LinkedTo(stop);
  std::atomic<bool> changed = false;
  const auto restart = [&] {
    changed = true;
    source.Stop();
  };
  options.synced(false);
  std::atomic<int> unsynced = Controllers::CountSynced(identity);
  World world(client, options.operator_namespace, identity, *options.operands, node_labels);
  std::mutex wanted_mutex;
  desired::LabelKeys wanted;
  world.node_labels_wanted = [&](desired::LabelKeys keys) {
    {
      const std::lock_guard lock(wanted_mutex);
      wanted.merge(std::move(keys));
    }
    restart();
  };
  kube::EventRecorder events(client, "nvidia-gpu-operator", kube::MakeLeaderIdentity());
  Controllers controllers(client, identity, options, world, budget, events, metrics, [&] {
    if (--unsynced == 0) options.synced(true);
  });
  const auto collecting = metrics.Collect([&](prom::Exposition& exposition) {
    controllers.Expose(exposition);
    world.Expose(exposition);
  });
  const DefinitionWatch monitors(client, desired::kServiceMonitorDefinition,
                                 identity.kinds.service_monitors, restart);
  const DefinitionWatch rules(client, desired::kPrometheusRuleDefinition,
                              identity.kinds.prometheus_rules, restart);
  const DefinitionWatch clusters(client, desired::kGpuClusterDefinition, identity.gpu_clusters,
                                 restart);
  const DefinitionWatch driver_objects(client, desired::kNvidiaDriverDefinition,
                                       identity.nvidia_drivers, restart);
  const auto ended = controllers.Run(source);
  world.Stop();
  node_labels.merge(std::move(wanted));
  TRY(ended);
  return changed.load();
}

}  // namespace

base::Status RunControllers(const std::shared_ptr<kube::Client>& client,
                            const RunnerOptions& options, Metrics& metrics,
                            const io::StopToken& stop) {
  // Of nodes, beside what is always kept; grows as they are asked for.
  desired::LabelKeys node_labels;
  desired::RemovalBudget budget;
  while (true) {
    const auto identity = WaitForIdentity(*client, stop);
    if (!identity) {
      if (stop.stopped()) return {};
      return base::Fail(identity.error());
    }
    base::LogInfo("controllers start", {{"kubernetes", identity->kubernetes_version},
                                        {"openshift", identity->openshift_version},
                                        {"namespace", options.operator_namespace}});
    TRY_ASSIGN(const bool again,
               RunOnce(client, *identity, options, node_labels, budget, metrics, stop));
    if (!again || stop.stopped()) return {};
    base::LogInfo(
        "controllers start again: the cluster serves other kinds now, or another node label is "
        "needed");
  }
}

}  // namespace pitcrew::gpu_operator

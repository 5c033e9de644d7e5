#include "operator/metrics/metrics.h"

namespace pitcrew::gpu_operator {
namespace {

struct Series {
  std::string_view name;
  std::string_view type;
  std::string_view help;
};

constexpr Series kSeries[] = {
    {"gpu_operator_gpu_nodes_total", "gauge", "Nodes that carry a GPU"},
    {"gpu_operator_reconciliation_last_success_ts_seconds", "gauge",
     "Unix time at which the policy was last found ready"},
    {"gpu_operator_reconciliation_status", "gauge",
     "1 ready, 0 an operand is not ready or failed, -1 the policy could not be worked on"},
    {"gpu_operator_reconciliation_total", "counter", "Passes over the policy"},
    {"gpu_operator_reconciliation_failed_total", "counter",
     "Passes that ended with an operand failed or not ready"},
    {"gpu_operator_reconciliation_has_nfd_labels", "gauge",
     "1 when any node has a label of node feature discovery"},
    {"gpu_operator_openshift_driver_toolkit_enabled", "gauge",
     "1 used, 0 not asked for, -1 asked for but not possible"},
    {"gpu_operator_openshift_driver_toolkit_nfd_too_old", "gauge",
     "1 when no GPU node tells its RHCOS version"},
    {"gpu_operator_openshift_driver_toolkit_imagestream_missing", "gauge",
     "1 when there is no ImageStream driver-toolkit"},
    {"gpu_operator_openshift_driver_toolkit_rhcos_tags_missing", "gauge",
     "1 when the ImageStream lacks an image for an RHCOS version in use"},
    {"gpu_operator_openshift_driver_toolkit_imagestream_broken", "gauge",
     "1 when the ImageStream has a tag without a name"},
    {"gpu_operator_driver_auto_upgrade_enabled", "gauge", "1 when drivers upgrade by themselves"},
    {"gpu_operator_nodes_upgrades_in_progress", "gauge", "Nodes whose driver is being upgraded"},
    {"gpu_operator_nodes_upgrades_done", "gauge", "Nodes whose driver upgrade is done"},
    {"gpu_operator_nodes_upgrades_failed", "gauge", "Nodes whose driver upgrade failed"},
    {"gpu_operator_nodes_upgrades_available", "gauge", "Nodes whose upgrade may begin"},
    {"gpu_operator_nodes_upgrades_pending", "gauge", "Nodes that wait for their upgrade"},
};

// Names that this file makes are valid and differ.
template <class Kind>
Kind* Made(base::Result<Kind*> family) {
  return *family;
}

}  // namespace

Metrics::Metrics()
    : operand_seconds_(
          Made(registry_.MakeGauge("gpu_operator_operand_pass_seconds",
                                   "Duration of the last pass over an operand", {"state"}))) {
  for (const Series& series : kSeries) {
    const std::string name(series.name);
    const std::string help(series.help);
    if (series.type == "counter") {
      counters_.emplace(name, Made(registry_.MakeCounter(name, help))).first->second->Add(0);
    } else {
      gauges_.emplace(name, Made(registry_.MakeGauge(name, help))).first->second->Set(0);
    }
  }
  collecting_ = registry_.Collect([this](prom::Exposition& exposition) {
    ExposeDaemonSets(exposition);
    ExposeHeldUpgrades(exposition);
  });
}

void Metrics::Set(std::string_view name, double value) { gauges_.find(name)->second->Set(value); }

void Metrics::Increment(std::string_view name) { counters_.find(name)->second->Add(); }

void Metrics::SetOperandSeconds(std::string_view state, double seconds) {
  operand_seconds_->Set(seconds, {std::string(state)});
}

void Metrics::SetDaemonSets(std::vector<DaemonSetPodCounts> daemonsets) {
  const std::lock_guard lock(mutex_);
  daemonsets_ = std::move(daemonsets);
}

void Metrics::SetHeldUpgrades(std::vector<HeldUpgrades> held) {
  const std::lock_guard lock(mutex_);
  held_upgrades_ = std::move(held);
}

void Metrics::ExposeHeldUpgrades(prom::Exposition& exposition) const {
  const std::lock_guard lock(mutex_);
  for (const HeldUpgrades& held : held_upgrades_) {
    exposition.AddGauge("gpu_operator_driver_upgrades_held",
                        "Nodes whose driver upgrade waits until a person does something",
                        held.nodes, {{"driver", held.driver}, {"reason", held.reason}});
  }
}

void Metrics::ExposeDaemonSets(prom::Exposition& exposition) const {
  const std::lock_guard lock(mutex_);
  for (const DaemonSetPodCounts& pods : daemonsets_) {
    const auto add = [&](std::string_view name, std::string_view help, std::int64_t value) {
      exposition.AddGauge(name, help, static_cast<double>(value),
                          {{"state", pods.state}, {"daemonset", pods.name}});
    };
    add("gpu_operator_operand_pods_desired", "Nodes that an operand's DaemonSet is meant for",
        pods.desired);
    add("gpu_operator_operand_pods_updated", "Pods of its current version", pods.updated);
    add("gpu_operator_operand_pods_ready", "Pods that are ready", pods.ready);
  }
}

}  // namespace pitcrew::gpu_operator

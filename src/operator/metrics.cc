#include "operator/metrics.h"

#include <fmt/format.h>

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

}  // namespace

Metrics::Metrics() {
  for (const Series& series : kSeries) values_.emplace(series.name, 0.0);
}

void Metrics::Set(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  values_.insert_or_assign(std::string(name), value);
}

void Metrics::Increment(std::string_view name) {
  const std::lock_guard lock(mutex_);
  values_[std::string(name)] += 1;
}

void Metrics::SetOperandSeconds(std::string_view state, double seconds) {
  const std::lock_guard lock(mutex_);
  operand_seconds_.insert_or_assign(std::string(state), seconds);
}

std::string Metrics::Render(const kube::Client::RequestCounts& requests) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Series& series : kSeries) {
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", series.name, series.type,
                        series.help, values_.find(series.name)->second);
  }
  constexpr std::string_view kOperandSeconds = "gpu_operator_operand_pass_seconds";
  text += fmt::format("# HELP {0} Duration of the last pass over an operand\n# TYPE {0} gauge\n",
                      kOperandSeconds);
  for (const auto& [state, seconds] : operand_seconds_) {
    text += fmt::format("{}{{state=\"{}\"}} {:.6f}\n", kOperandSeconds, state, seconds);
  }
  constexpr std::string_view kRequests = "gpu_operator_api_requests_total";
  text += fmt::format(
      "# HELP {0} Answers of the API server by verb and HTTP status\n# TYPE {0} counter\n",
      kRequests);
  for (const auto& [what, count] : requests) {
    text += fmt::format("{}{{verb=\"{}\",code=\"{}\"}} {}\n", kRequests, what.first, what.second,
                        count);
  }
  return text;
}

}  // namespace pitcrew::gpu_operator

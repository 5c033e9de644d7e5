#include "operator/metrics/collectors.h"

#include <fmt/format.h>

#include <map>
#include <string>

namespace pitcrew::gpu_operator {
namespace {

// HTTP's word for a Kubernetes verb.
std::string_view MethodOf(std::string_view verb) {
  if (verb == "create") return "POST";
  if (verb == "update") return "PUT";
  if (verb == "patch" || verb == "apply") return "PATCH";
  if (verb == "delete") return "DELETE";
  return "GET";
}

std::string CodeOf(int status) { return status == 0 ? "<error>" : fmt::format("{}", status); }

}  // namespace

void ExposeController(const kube::ControllerStatistics& statistics, prom::Exposition& exposition) {
  const prom::Labels labels = {{"controller", statistics.name}};
  const auto results = [&](std::string_view result, std::uint64_t count) {
    exposition.AddCounter("controller_runtime_reconcile_total", "Reconciles by result",
                          static_cast<double>(count),
                          {{"controller", statistics.name}, {"result", result}});
  };
  const auto& counts = statistics.counts;
  results("success", counts.succeeded - counts.requeued);
  results("requeue_after", counts.requeued);
  results("requeue", 0);
  results("error", counts.failed + counts.threw);
  exposition.AddCounter("controller_runtime_reconcile_errors_total", "Reconciles that failed",
                        static_cast<double>(counts.failed + counts.threw), labels);
  exposition.AddCounter("controller_runtime_terminal_reconcile_errors_total",
                        "Reconciles that failed and are not tried again: none", 0, labels);
  exposition.AddCounter("controller_runtime_reconcile_panics_total",
                        "Reconciles that ended with an exception",
                        static_cast<double>(counts.threw), labels);
  exposition.AddCounter("controller_runtime_reconcile_timeouts_total",
                        "Reconciles that ran out of time: none", 0, labels);
  exposition.AddHistogram("controller_runtime_reconcile_time_seconds", "Duration of reconciles",
                          statistics.bounds, statistics.durations, statistics.seconds, labels);
  exposition.AddGauge("controller_runtime_max_concurrent_reconciles", "Workers", statistics.workers,
                      labels);
  exposition.AddGauge("controller_runtime_active_workers", "Workers that reconcile now",
                      statistics.active, labels);
  const prom::Labels queue = {{"controller", statistics.name}, {"name", statistics.name}};
  exposition.AddGauge("workqueue_depth", "Keys that are ready to be worked on",
                      static_cast<double>(statistics.queue.depth), queue);
  exposition.AddCounter("workqueue_adds_total", "Keys added",
                        static_cast<double>(statistics.queue.adds), queue);
  exposition.AddCounter("workqueue_retries_total", "Keys added again after a failure",
                        static_cast<double>(statistics.queue.retries), queue);
}

void ExposeWatch(std::string_view resource, const kube::InformerStatus& status, std::size_t objects,
                 prom::Exposition& exposition) {
  const prom::Labels labels = {{"resource", resource}};
  exposition.AddCounter("gpu_operator_watch_lists_total",
                        "Lists begun: more than one where a watch could not be resumed",
                        static_cast<double>(status.lists), labels);
  exposition.AddCounter("gpu_operator_watch_openings_total",
                        "Watches opened: the server ends each after some minutes",
                        static_cast<double>(status.watches), labels);
  exposition.AddGauge("gpu_operator_watch_up", "1 while the store is kept up to date",
                      status.synced && !status.trouble ? 1 : 0, labels);
  exposition.AddGauge("gpu_operator_store_objects", "Objects in the store",
                      static_cast<double>(objects), labels);
}

void ExposeRequests(const kube::Client::RequestCounts& requests, std::string_view host,
                    prom::Exposition& exposition) {
  // Several verbs share a method.
  std::map<std::pair<std::string_view, int>, std::uint64_t> methods;
  for (const auto& [what, count] : requests) {
    const auto& [verb, status] = what;
    methods[{MethodOf(verb), status}] += count;
    exposition.AddCounter("gpu_operator_api_requests_total",
                          "Answers of the API server by verb and HTTP status",
                          static_cast<double>(count), {{"verb", verb}, {"code", CodeOf(status)}});
  }
  for (const auto& [what, count] : methods) {
    exposition.AddCounter("rest_client_requests_total",
                          "Answers of the API server by method and HTTP status",
                          static_cast<double>(count),
                          {{"code", CodeOf(what.second)}, {"host", host}, {"method", what.first}});
  }
}

void ExposeLeader(std::string_view lease, bool leads, prom::Exposition& exposition) {
  exposition.AddGauge("leader_election_master_status", "1 while this process leads", leads ? 1 : 0,
                      {{"name", lease}});
  exposition.AddCounter("leader_election_slowpath_total", "Renewals that had to read first: all", 0,
                        {{"name", lease}});
}

}  // namespace pitcrew::gpu_operator

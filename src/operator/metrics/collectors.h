// Metrics that are read from what they describe when somebody asks: controllers, queues, watches,
// requests and the process. Names are controller-runtime's, client-go's and the Prometheus
// client's where they have one, so that dashboards for upstream work (reference
// operator-behaviour.md section 2).
#pragma once

#include <string_view>

#include "kube/client.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "operator/metrics/exposition.h"

namespace pitcrew::gpu_operator {

void ExposeController(const kube::ControllerStatistics& statistics, Exposition& exposition);
// `objects` in the informer's store.
void ExposeWatch(std::string_view resource, const kube::InformerStatus& status, std::size_t objects,
                 Exposition& exposition);
// `host` of the API server.
void ExposeRequests(const kube::Client::RequestCounts& requests, std::string_view host,
                    Exposition& exposition);
void ExposeLeader(std::string_view lease, bool leads, Exposition& exposition);
// Of this process, from /proc/self; what cannot be read is left out.
void ExposeProcess(Exposition& exposition);

}  // namespace pitcrew::gpu_operator

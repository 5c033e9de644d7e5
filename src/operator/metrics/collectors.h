// Metrics that are read from what they describe when somebody asks: controllers, queues, watches
// and requests. Names are controller-runtime's, client-go's and the Prometheus
// client's where they have one, so that dashboards for upstream work (reference
// operator-behaviour.md section 2).
#pragma once

#include <string_view>

#include "kube/client.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "prom/exposition.h"

namespace pitcrew::gpu_operator {

void ExposeController(const kube::ControllerStatistics& statistics, prom::Exposition& exposition);
// `objects` in the informer's store.
void ExposeWatch(std::string_view resource, const kube::InformerStatus& status, std::size_t objects,
                 prom::Exposition& exposition);
// `host` of the API server.
void ExposeRequests(const kube::Client::RequestCounts& requests, std::string_view host,
                    prom::Exposition& exposition);
void ExposeLeader(std::string_view lease, bool leads, prom::Exposition& exposition);

}  // namespace pitcrew::gpu_operator

// Labels of the resources that the device plugin offers (feature-discovery.md sections 4.2 to 4.4).
#pragma once

#include "api/plugin_config.h"
#include "gpu/inventory.h"
#include "gpu/mig_strategy.h"
#include "node/feature_discovery/labels.h"

namespace pitcrew::node::feature_discovery {

void AddResourceLabels(const gpu::Inventory& gpus, std::size_t unreadable_gpus,
                       gpu::MigStrategy strategy, const api::Sharing& sharing,
                       Description& description);

}  // namespace pitcrew::node::feature_discovery

// Resources whose containers share a GPU through an MPS server (device-plugin.md section 17.3).
// Pure.
#pragma once

#include <set>
#include <string>

#include "api/plugin_config.h"
#include "base/result.h"
#include "node/device_plugin/resources.h"

namespace pitcrew::node::device_plugin {

// Those that have replicas, while the strategy is MPS: they can be used only while their server
// runs. kInvalid "MpsWithMig", worded as upstream's, when one of them has MIG devices.
base::Result<std::set<std::string>> MpsResources(const ResourceMap& devices,
                                                 const api::Sharing& sharing);

}  // namespace pitcrew::node::device_plugin

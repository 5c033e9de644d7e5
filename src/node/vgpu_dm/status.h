// What `status` and `export` print. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "node/vgpu/configuration.h"
#include "node/vgpu/gpu.h"

namespace pitcrew::node::vgpu_dm {

// One configuration named `label` that describes every GPU, equal neighbours in one entry.
vgpu::Configuration ExportConfiguration(const std::vector<vgpu::Gpu>& gpus, std::string_view label);

std::string StatusText(const std::vector<vgpu::Gpu>& gpus);
codec::Json StatusJson(const std::vector<vgpu::Gpu>& gpus);

}  // namespace pitcrew::node::vgpu_dm

#include "node/vgpu_dm/status.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::node::vgpu_dm {
namespace {

using codec::Json;
using vgpu::Framework;

std::string_view ToString(Framework framework) {
  switch (framework) {
    case Framework::kNone:
      return "none";
    case Framework::kMdev:
      return "mdev";
    case Framework::kVendor:
      return "vendor-specific VFIO";
  }
  return "unknown";
}

std::string Summary(const vgpu::Gpu& gpu) {
  if (gpu.needs_functions()) {
    return fmt::format("its {} virtual functions are not enabled", gpu.most_functions);
  }
  if (gpu.framework == Framework::kNone) return "its driver offers no vGPUs";
  auto text = fmt::format("vGPUs by {}", ToString(gpu.framework));
  if (gpu.functions > 0) text += fmt::format(", {} virtual functions", gpu.functions);
  return text;
}

std::string Holders(const vgpu::Vgpu& vgpu) {
  if (vgpu.holders.is_unknown()) {
    return "not known who uses it: " + vgpu.holders.error()->message;
  }
  const auto& holders = *vgpu.holders.value();
  return holders.empty() ? "free" : base::Join(holders, ", ");
}

Json ToJson(const vgpu::Vgpu& vgpu) {
  Json json = {{"slot", vgpu.slot.SysfsName()}, {"type", vgpu.type}};
  if (!vgpu.uuid.empty()) json["uuid"] = vgpu.uuid;
  if (!vgpu.type_id.empty()) json["typeId"] = vgpu.type_id;
  json["holders"] = vgpu.holders.is_present() ? Json(*vgpu.holders.value()) : Json();
  return json;
}

}  // namespace

vgpu::Configuration ExportConfiguration(const std::vector<vgpu::Gpu>& gpus,
                                        std::string_view label) {
  vgpu::NamedConfig config;
  for (const auto& gpu : gpus) {
    const auto filter = gpu.id.ToString();
    const auto counts = vgpu::CountsOf(gpu);
    const bool is_equal = !config.empty() && config.back().device_filter.front() == filter &&
                          config.back().vgpu_devices == counts;
    if (is_equal) {
      config.back().devices->push_back(gpu.position);
    } else {
      config.push_back({.device_filter = {filter},
                        .devices = std::vector<int>{gpu.position},
                        .vgpu_devices = counts});
    }
  }
  vgpu::Configuration configuration{.version = "v1"};
  if (!config.empty()) configuration.configs[std::string(label)] = std::move(config);
  return configuration;
}

std::string StatusText(const std::vector<vgpu::Gpu>& gpus) {
  if (gpus.empty()) return "No NVIDIA GPUs\n";
  std::string text;
  for (const auto& gpu : gpus) {
    text += fmt::format("{}, device id {}: {}\n", gpu.Title(), gpu.id.ToString(), Summary(gpu));
    for (const auto& vgpu : gpu.vgpus) {
      text += fmt::format("  {}: {}\n", vgpu.Title(), Holders(vgpu));
    }
    if (!gpu.types.empty()) text += fmt::format("  types: {}\n", vgpu::DescribeTypes(gpu));
  }
  return text;
}

Json StatusJson(const std::vector<vgpu::Gpu>& gpus) {
  Json list = Json::array();
  for (const auto& gpu : gpus) {
    Json types = Json::array();
    for (const auto& type : gpu.types) {
      Json one = {{"name", type.name}};
      if (type.most) one["most"] = *type.most;
      types.push_back(std::move(one));
    }
    Json vgpus = Json::array();
    for (const auto& vgpu : gpu.vgpus) vgpus.push_back(ToJson(vgpu));
    list.push_back({{"position", gpu.position},
                    {"pci", gpu.pci.SysfsName()},
                    {"deviceId", gpu.id.ToString()},
                    {"framework", ToString(gpu.framework)},
                    {"virtualFunctions", gpu.functions},
                    {"mostVirtualFunctions", gpu.most_functions},
                    {"types", std::move(types)},
                    {"vgpus", std::move(vgpus)}});
  }
  return {{"gpus", std::move(list)}};
}

}  // namespace pitcrew::node::vgpu_dm

#include "node/sandbox_device_plugin/cdi_files.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

// What Kata's runtime reads (section 11.2).
constexpr std::string_view kVersion = "0.5.0";

void AddNodes(const OfferedDevice& device, const Machine& machine, cdi::ContainerEdits& edits) {
  for (const auto& address : device.functions) {
    for (const auto& name : NodesOf(*machine.Find(address), machine, Client::kKata)) {
      cdi::DeviceNode node;
      node.path = "/dev/vfio/" + name;
      if (std::ranges::find(edits.device_nodes, node.path, &cdi::DeviceNode::path) ==
          edits.device_nodes.end()) {
        edits.device_nodes.push_back(std::move(node));
      }
    }
  }
}

}  // namespace

cdi::Spec CdiSpec(const std::string& resource, const std::vector<OfferedDevice>& devices,
                  const Machine& machine) {
  cdi::Spec spec;
  spec.version = kVersion;
  spec.kind = resource;
  for (const auto& offered : devices) {
    if (!offered.unfit.empty()) continue;
    cdi::Device device;
    device.name = offered.id;
    AddNodes(offered, machine, device.edits);
    spec.devices.push_back(std::move(device));
  }
  // Ids are numbers.
  std::ranges::sort(spec.devices, {}, [](const cdi::Device& device) {
    return base::ParseUnsigned(device.name).value_or(0);
  });
  return spec;
}

std::map<std::string, base::Error> CdiFiles::Update(const Resources& resources,
                                                    const Machine& machine) {
  std::map<std::string, base::Error> failures;
  for (const auto& [resource, devices] : resources) {
    if (auto written = Write(resource, devices, machine); !written) {
      failures.emplace(resource, std::move(written).error());
    }
  }
  std::erase_if(written_, [&](const auto& entry) {
    if (resources.contains(entry.first)) return false;
    std::error_code error;
    std::filesystem::remove(entry.second, error);
    if (!error) return true;
    failures.emplace(entry.first,
                     base::FromErrno(error.value(), "remove " + entry.second.string()));
    return false;
  });
  return failures;
}

base::Status CdiFiles::Write(const std::string& resource, const std::vector<OfferedDevice>& devices,
                             const Machine& machine) {
  auto spec = CdiSpec(resource, devices, machine);
  // What stands there names devices that may be fit again; the kubelet gives none of them now.
  if (spec.devices.empty()) return {};
  const auto path = folder_ / (cdi::SpecFileStem(resource) + ".yaml");
  TRY_ASSIGN(const bool changed, cdi::UpdateSpecFile(path, std::move(spec)));
  written_[resource] = path;
  if (changed) base::LogInfo("wrote a CDI specification", {{"file", path.string()}});
  return {};
}

}  // namespace pitcrew::node::sandbox_device_plugin

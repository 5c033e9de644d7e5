#include "cdi/generate/classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdi/generate/edits.h"
#include "cdi/generate/locate.h"
#include "host/device_node.h"

namespace pitcrew::cdi_generate {
namespace {

cdi::DeviceNode NodeAt(const std::string& inside, const ClassRoots& roots) {
  cdi::DeviceNode node;
  node.path = inside;
  const auto on_host = host::Root(roots.dev_on_host).At(inside).string();
  if (on_host != inside) node.host_path = on_host;
  return node;
}

// Character devices that match, by name; none when the folder is missing.
base::Status AddNodes(const cdi::NodePattern& pattern, const ClassRoots& roots,
                      cdi::ContainerEdits& edits) {
  const auto names = host::ListFolder(roots.dev.At(pattern.folder));
  if (!names && names.error().code == base::Code::kNotFound) return {};
  if (!names) return base::Fail(names.error());
  for (const auto& name : *names) {
    const auto inside = fmt::format("{}/{}", pattern.folder, name);
    if (!name.starts_with(pattern.prefix)) continue;
    if (!host::ReadCharacterDevice(roots.dev.At(inside)).is_present()) continue;
    edits.device_nodes.push_back(NodeAt(inside, roots));
    const auto node = LocateNode(roots.dev, inside);
    if (node && roots.additional_gids) AddGroup(*node, edits);
  }
  return {};
}

}  // namespace

base::Result<std::optional<cdi::Spec>> GenerateClass(const DeviceClass& device_class,
                                                     std::string_view vendor,
                                                     const ClassRoots& roots) {
  cdi::ContainerEdits edits;
  for (const auto& pattern : device_class.nodes) TRY(AddNodes(pattern, roots, edits));
  if (edits.device_nodes.empty()) return std::nullopt;
  for (const auto path : device_class.mounts) {
    if (!host::Exists(roots.driver.At(path)).value_or(false)) continue;
    edits.mounts.push_back({.host_path = host::Root(roots.driver_on_host).At(path).string(),
                            .container_path = std::string(path),
                            .options = cdi::ClassMountOptions(),
                            .type = ""});
  }
  cdi::Spec spec;
  spec.kind = fmt::format("{}/{}", vendor, device_class.name);
  spec.devices = {{.name = "all", .annotations = {}, .edits = std::move(edits)}};
  return spec;
}

cdi::Spec GenerateImexChannels(std::span<const std::int64_t> channels, std::string_view vendor,
                               const ClassRoots& roots) {
  cdi::Spec spec;
  spec.kind = fmt::format("{}/imex-channel", vendor);
  for (const auto channel : channels) {
    cdi::ContainerEdits edits;
    auto node = NodeAt(ImexChannelPath(channel), roots);
    if (node.host_path.empty()) node.host_path = node.path;  // upstream's form
    edits.device_nodes.push_back(std::move(node));
    spec.devices.push_back(
        {.name = std::to_string(channel), .annotations = {}, .edits = std::move(edits)});
  }
  return spec;
}

}  // namespace pitcrew::cdi_generate

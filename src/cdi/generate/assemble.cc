#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "cdi/generate/edits.h"

namespace pitcrew::cdi_generate {
namespace {

template <class T>
bool Contains(const std::vector<T>& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}

// Keeps the first of equal items.
template <class T>
void Deduplicate(std::vector<T>& list) {
  std::vector<T> unique;
  for (auto& item : list) {
    if (!Contains(unique, item)) unique.push_back(std::move(item));
  }
  list = std::move(unique);
}

void Deduplicate(cdi::ContainerEdits& edits) {
  Deduplicate(edits.env);
  Deduplicate(edits.device_nodes);
  Deduplicate(edits.hooks);
  Deduplicate(edits.mounts);
  std::ranges::sort(edits.additional_gids);
  Deduplicate(edits.additional_gids);
}

template <class T>
void Remove(std::vector<T>& from, const std::vector<T>& common) {
  std::erase_if(from, [&](const T& item) { return Contains(common, item); });
}

// A device that would have no edits of its own is left as it was (container-toolkit.md 6.11).
void RemoveCommon(cdi::ContainerEdits& edits, const cdi::ContainerEdits& common) {
  cdi::ContainerEdits rest = edits;
  Remove(rest.env, common.env);
  Remove(rest.device_nodes, common.device_nodes);
  Remove(rest.hooks, common.hooks);
  Remove(rest.mounts, common.mounts);
  const bool empty =
      rest.env.empty() && rest.device_nodes.empty() && rest.hooks.empty() && rest.mounts.empty();
  if (!empty) edits = std::move(rest);
}

// Fewer parts first, then by bytes.
bool ComesBefore(const std::string& a, const std::string& b) {
  const auto slashes = [](const std::string& path) {
    return std::ranges::count(std::filesystem::path(path).lexically_normal().string(), '/');
  };
  const auto depth_a = slashes(a);
  const auto depth_b = slashes(b);
  return depth_a != depth_b ? depth_a < depth_b : a < b;
}

void Sort(cdi::ContainerEdits& edits) {
  std::ranges::stable_sort(edits.device_nodes, ComesBefore, &cdi::DeviceNode::path);
  std::ranges::stable_sort(edits.mounts, ComesBefore, &cdi::Mount::container_path);
}

void Simplify(cdi::Spec& spec) {
  Deduplicate(spec.edits);
  Sort(spec.edits);
  for (auto& device : spec.devices) {
    Deduplicate(device.edits);
    RemoveCommon(device.edits, spec.edits);
    Sort(device.edits);
  }
  std::ranges::stable_sort(spec.devices, {}, &cdi::Device::name);
}

// Everything of the others under one name, unless one has that name already.
void Merge(cdi::Spec& spec) {
  if (std::ranges::find(spec.devices, "all", &cdi::Device::name) != spec.devices.end()) return;
  if (spec.devices.empty()) return;
  cdi::Device all{"all", {}, {}};
  for (const auto& device : spec.devices) all.edits.Append(device.edits);
  spec.devices.push_back(std::move(all));
  Simplify(spec);
}

}  // namespace

void Assemble(cdi::Spec& spec, bool merged_device, std::vector<cdi::Device> apart) {
  Simplify(spec);
  if (merged_device) Merge(spec);
  if (apart.empty()) return;
  std::ranges::move(apart, std::back_inserter(spec.devices));
  Simplify(spec);
}

}  // namespace pitcrew::cdi_generate

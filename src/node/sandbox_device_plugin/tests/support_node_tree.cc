#include "support_node_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <filesystem>

#include "base/file.h"
#include "host/vfio_device.h"
#include "tests/support/folders.h"

namespace pitcrew::node::sandbox_device_plugin::testing {
namespace {

namespace fs = std::filesystem;
using codec::Json;

// "12" and 12 are the same in a case.
std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

NodeTree::NodeTree(const Json& description) {
  fs::create_directories(folder_.path() / "sys/bus/pci/devices");
  fs::create_directories(folder_.path() / "dev");
  for (const auto& device : description.value("pci", Json::array())) {
    AddPci(device);
    if (!description.contains("dev")) AddDefaultNodes(device);
  }
  for (const auto& mdev : description.value("mdev", Json::array())) AddMdev(mdev);
  const auto egm = description.value("egm", Json::object());
  for (const auto& [name, gpus] : egm.items()) {
    folder_.Write("sys/class/egm/" + name + "/gpu_devices", Text(gpus) + "\n");
  }
  for (const auto& node : description.value("dev", Json::array())) AddNode(Text(node));
  const auto files = description.value("files", Json::object());
  for (const auto& [path, content] : files.items()) folder_.Write(path, Text(content));
  const auto links = description.value("links", Json::object());
  for (const auto& [path, target] : links.items()) Link(folder_.path() / path, Text(target));
}

fs::path NodeTree::PciFolder(const std::string& address) const {
  return folder_.path() / "sys/devices/pci0000:60" / address;
}

void NodeTree::Link(const fs::path& link, const fs::path& target) const {
  fs::create_directories(link.parent_path());
  fs::remove_all(link);
  fs::create_symlink(target, link);
}

void NodeTree::AddPci(const Json& device) const {
  const auto at = Text(device.at("at"));
  const auto folder = PciFolder(at);
  fs::create_directories(folder);
  const auto write = [&](const char* name, const std::string& content) {
    folder_.Write(fs::path("sys/devices/pci0000:60") / at / name, content + "\n");
  };
  if (device.contains("is")) {
    const auto ids = Text(device.at("is"));
    write("vendor", "0x" + ids.substr(0, 4));
    if (ids.size() > 5) write("device", "0x" + ids.substr(5));
  }
  write("class", fmt::format("0x{}00", Text(device.value("class", Json("0302")))));
  if (device.contains("numa")) write("numa_node", Text(device.at("numa")));
  if (device.contains("group")) {
    Link(folder / "iommu_group", "../../../kernel/iommu_groups/" + Text(device.at("group")));
  }
  if (device.contains("physfn")) Link(folder / "physfn", "../" + Text(device.at("physfn")));
  if (device.contains("vgpu")) {
    write("nvidia/current_vgpu_type", Text(device["vgpu"]));
    std::string types = "ID    : vGPU Name";
    for (const auto& type : device.value("creatable", Json::array())) types += "\n" + Text(type);
    write("nvidia/creatable_vgpu_types", types);
  }
  if (device.contains("vfio")) fs::create_directories(folder / "vfio-dev" / Text(device["vfio"]));
  if (device.contains("driver")) Bind(at, Text(device.at("driver")));
  Link(folder_.path() / "sys/bus/pci/devices" / at, "../../../devices/pci0000:60/" + at);
}

void NodeTree::Bind(const std::string& address, const std::string& driver) const {
  const auto link = PciFolder(address) / "driver";
  if (driver.empty() || !fs::exists(fs::symlink_status(link))) {
    fs::remove_all(link);
    if (!driver.empty()) Link(link, "../../../bus/pci/drivers/" + driver);
    return;
  }
  // In one step, as the kernel does it: whoever looks meanwhile sees the one or the other.
  const auto old = PciFolder(address) / "driver.old";
  Link(old, "../../../bus/pci/drivers/" + driver);
  ASSERT_EQ(::renameat2(AT_FDCWD, old.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE), 0);
  fs::remove_all(old);
}

void NodeTree::SetVgpu(const std::string& address, const std::string& type) const {
  folder_.Write(fs::path("sys/devices/pci0000:60") / address / "nvidia/current_vgpu_type",
                type + "\n");
}

void NodeTree::RemovePci(const std::string& address) const {
  fs::remove_all(folder_.path() / "sys/bus/pci/devices" / address);
  fs::remove_all(PciFolder(address));
}

void NodeTree::AddMdev(const Json& mdev) const {
  const auto uuid = Text(mdev.at("uuid"));
  const fs::path inside = fs::path("sys/devices/pci0000:60") / Text(mdev.at("parent")) / uuid;
  fs::create_directories(folder_.path() / inside);
  if (mdev.contains("type")) {
    folder_.Write(inside / "mdev_type/name", Text(mdev.at("type")) + "\n");
  }
  Link(folder_.path() / "sys/bus/mdev/devices" / uuid, fs::path("../../../..") / inside);
}

void NodeTree::AddNode(const std::string& below_dev) const {
  folder_.Write(fs::path("dev") / below_dev, "");
}

void NodeTree::RemoveNode(const std::string& below_dev) const {
  fs::remove_all(folder_.path() / "dev" / below_dev);
}

void NodeTree::AddDefaultNodes(const Json& device) const {
  const bool has_driver = device.contains("driver") && host::IsVfioDriver(Text(device["driver"]));
  if (!has_driver && !device.contains("vgpu")) return;
  AddNode("vfio/vfio");
  if (device.contains("group")) AddNode("vfio/" + Text(device["group"]));
  if (device.contains("vfio")) AddNode("vfio/devices/" + Text(device["vfio"]));
}

gpu::DeviceNames ImageNames() {
  auto names = gpu::DeviceNames::Load(test_support::SourceFolder() / "deploy/image/pci.ids");
  return names ? *std::move(names) : gpu::DeviceNames();
}

}  // namespace pitcrew::node::sandbox_device_plugin::testing

#include "support_tree.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"

namespace pitcrew::node::vfio::testing {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& address) { return "sys/bus/pci/devices/" + address + "/"; }

}  // namespace

Tree::Tree() {
  Folder("sys/bus/pci/devices");
  Folder("sys/bus/pci/drivers");
  Folder("sys/class/iommu/dmar0");
  Write("sys/bus/pci/drivers_probe", "");
  Write("proc/sys/kernel/osrelease", "6.8.0-60-generic\n");
  Write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1\n");
  Write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vmx\n");
  Folder("sys/firmware/acpi/tables/DMAR");
}

void Tree::Add(const Device& device) const {
  const auto folder = FolderOf(device.address);
  Write(folder + "vendor", device.vendor + "\n");
  Write(folder + "device", device.device + "\n");
  Write(folder + "class", device.class_code + "\n");
  Write(folder + "numa_node", "-1\n");
  Write(folder + "driver_override", "(null)\n");
  Write(folder + "modalias", "pci:v0000" + device.vendor.substr(2) + "d0000" +
                                 device.device.substr(2) + "sv000010DEsd000016C1bc03sc02i00\n");
  if (device.group >= 0) {
    const auto group = std::to_string(device.group);
    Link(folder + "iommu_group", "../../../../kernel/iommu_groups/" + group);
    Folder("sys/kernel/iommu_groups/" + group + "/devices/" + device.address);
  }
  if (!device.driver.empty()) Bind(device.address, device.driver);
}

void Tree::AddDriver(const std::string& name) const {
  Write("sys/bus/pci/drivers/" + name + "/bind", "");
  Write("sys/bus/pci/drivers/" + name + "/unbind", "");
}

void Tree::Bind(const std::string& address, const std::string& driver) const {
  if (!fs::exists(folder_.path() / "sys/bus/pci/drivers" / driver)) AddDriver(driver);
  Link(FolderOf(address) + "driver", "../../drivers/" + driver);
}

void Tree::Write(const std::string& inside, const std::string& text) const {
  folder_.Write(inside, text);
}

void Tree::Link(const std::string& inside, const std::string& target) const {
  const auto path = folder_.path() / inside;
  fs::create_directories(path.parent_path());
  fs::remove(path);
  fs::create_symlink(target, path);
}

void Tree::Folder(const std::string& inside) const {
  fs::create_directories(folder_.path() / inside);
}

std::string Tree::Read(const std::string& inside) const {
  return base::ReadFile(folder_.path() / inside).value_or("missing");
}

std::string Tree::Commands() const {
  std::map<std::string, std::string> written;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "sys/bus/pci")) {
    const auto name = entry.path().filename().string();
    const bool command = name == "bind" || name == "unbind" || name == "driver_override" ||
                         name == "drivers_probe" || name == "sriov_numvfs";
    if (!command || !entry.is_regular_file()) continue;
    const auto inside = fs::relative(entry.path(), folder_.path()).string();
    written[inside] = Read(inside);
  }
  std::string all;
  for (const auto& [inside, text] : written) all += inside + "=" + text + ";";
  return all;
}

Settings Tree::settings() const {
  return {.root = host::Root(folder_.path()),
          .host_root = host::Root(folder_.path()),
          .load_module = [](const std::string& module) -> base::Status {
            return base::Fail(base::NotFound("NoSuchModule", "there is no module " + module));
          }};
}

Node Tree::ReadAll() const {
  const auto node = ReadNode(settings());
  EXPECT_TRUE(node) << node.error().ToString();
  return node.value_or(Node{});
}

gpu::PciAddress Tree::At(const std::string& address) { return *gpu::PciAddress::Parse(address); }

}  // namespace pitcrew::node::vfio::testing

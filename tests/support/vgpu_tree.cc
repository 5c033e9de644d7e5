#include "tests/support/vgpu_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::test_support {
namespace {

namespace fs = std::filesystem;

const fs::path kDevices = "sys/bus/pci/devices";

}  // namespace

VgpuTree::VgpuTree() {
  fs::create_directories(root() / kDevices);
  fs::create_directories(root() / "proc");
}

void VgpuTree::Write(const fs::path& inside, std::string_view text) const {
  folder_.Write(inside, text);
}

std::string VgpuTree::Read(const fs::path& inside) const {
  const auto text = base::ReadFile(root() / inside);
  EXPECT_TRUE(text) << text.error().ToString();
  return std::string(base::Trim(text.value_or("")));
}

void VgpuTree::Link(const fs::path& inside, const fs::path& target) const {
  fs::create_directories((root() / inside).parent_path());
  fs::create_symlink(target, root() / inside);
}

void VgpuTree::AddGpu(const std::string& address, const std::string& device,
                      const std::string& subsystem) const {
  const auto folder = kDevices / address;
  Write(folder / "vendor", "0x10de\n");
  Write(folder / "device", fmt::format("0x{}\n", device));
  Write(folder / "class", "0x030200\n");
  Write(folder / "subsystem_vendor", "0x10de\n");
  Write(folder / "subsystem_device", fmt::format("0x{}\n", subsystem));
  Write(folder / "numa_node", "-1\n");
}

void VgpuTree::AddFunction(const std::string& gpu, const std::string& address, int group) const {
  const auto folder = kDevices / address;
  AddGpu(address, Read(kDevices / gpu / "device").substr(2));
  Link(folder / "physfn", fs::path("..") / gpu);
  Link(folder / "iommu_group", fmt::format("../../../../kernel/iommu_groups/{}", group));
  int functions = 0;
  while (fs::is_symlink(root() / kDevices / gpu / fmt::format("virtfn{}", functions))) ++functions;
  Link(kDevices / gpu / fmt::format("virtfn{}", functions), fs::path("..") / address);
  Write(kDevices / gpu / "sriov_numvfs", fmt::format("{}\n", functions + 1));
  Write(kDevices / gpu / "sriov_totalvfs", fmt::format("{}\n", functions + 1));
}

void VgpuTree::AddVendorFunction(const std::string& gpu, const std::string& address, int group,
                                 std::string_view types) const {
  AddFunction(gpu, address, group);
  Write(kDevices / address / "nvidia/creatable_vgpu_types",
        fmt::format("ID    : vGPU Name\n{}", types));
  SetVendorType(address, "0");
}

void VgpuTree::AddMdevParent(const std::string& address, std::string_view types,
                             std::string_view description) const {
  const auto folder = fs::path("sys/class/mdev_bus") / address / "mdev_supported_types";
  for (const auto& line : base::SplitTrimmed(types, '\n')) {
    const auto words = base::Split(line, ' ');
    ASSERT_GE(words.size(), 3U) << line;
    const auto name = line.substr(words[0].size() + words[1].size() + 2);
    Write(folder / words[0] / "name", name + "\n");
    Write(folder / words[0] / "available_instances", words[1] + "\n");
    Write(folder / words[0] / "create", "");
    if (!description.empty()) Write(folder / words[0] / "description", description);
  }
  fs::create_directories(root() / "sys/bus/mdev/devices");
}

void VgpuTree::AddMdev(const std::string& parent, const std::string& uuid, std::string_view type,
                       int group) const {
  const auto real = fs::path("sys/devices") / parent / uuid;
  Write(real / "mdev_type/name", fmt::format("{}\n", type));
  Write(real / "remove", "");
  Link(real / "iommu_group", fmt::format("../../../kernel/iommu_groups/{}", group));
  Link(fs::path("sys/bus/mdev/devices") / uuid, fs::path("../../../devices") / parent / uuid);
}

void VgpuTree::AddVfioUser(int pid, std::string_view node, std::string_view command_line) const {
  const auto folder = fs::path("proc") / std::to_string(pid);
  Write(folder / "comm", "qemu-kvm\n");
  Write(folder / "cmdline", base::ReplaceAll(std::string(command_line), " ", std::string(1, '\0')));
  Link(folder / "fd/7", fmt::format("/dev/vfio/{}", node));
  Link(folder / "fd/8", "/dev/vfio/vfio");
}

void VgpuTree::RemoveProcess(int pid) const {
  fs::remove_all(root() / "proc" / std::to_string(pid));
}

std::string VgpuTree::VendorType(const std::string& function) const {
  return Read(kDevices / function / "nvidia/current_vgpu_type");
}

void VgpuTree::SetVendorType(const std::string& function, std::string_view type) const {
  Write(kDevices / function / "nvidia/current_vgpu_type", fmt::format("{}\n", type));
}

}  // namespace pitcrew::test_support

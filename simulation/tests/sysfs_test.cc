// The simulated machine itself: what only NVIDIA's driver has, what can be made to fail, and the
// layout. What every kernel does stands in tests/kernel/expectations, tried here without a mount
// and, in the integration tests, with one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "base/strings.h"
#include "simulation/sysfs/expectations/expectations.h"
#include "simulation/sysfs/file_system.h"
#include "simulation/sysfs/hardware.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation::sysfs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr const char* kGpu = "0000:1b:00.0";
constexpr const char* kPci = "/bus/pci/devices/";

Machine MachineOf(const std::string& yaml) {
  const auto description = ParseWholeDescription(yaml, "test", {"node", "", {}});
  if (!description) ADD_FAILURE() << description.error().message;
  return *MakeMachine(*description, {});
}

// The file system without a mount: links are followed here.
class Unmounted : public Subject {
 public:
  explicit Unmounted(const std::string& yaml, const fs::path& state = {})
      : files_(MachineOf(yaml), {state, {}, false, {}}) {}

  Errno Write(const std::string& path, const std::string& value) override {
    const auto tree = files_.Current();
    const std::string place = Resolved(*tree, path, true);
    const Node* node = tree->Find(place);
    if (node == nullptr) return ENOENT;
    if ((node->mode & 0222) == 0) return EACCES;
    return files_.Store(place, value);
  }
  std::expected<std::string, Errno> Read(const std::string& path) override {
    const auto tree = files_.Current();
    const Node* node = tree->Find(Resolved(*tree, path, true));
    if (node == nullptr) return std::unexpected(ENOENT);
    if ((node->mode & 0444) == 0) return std::unexpected(EACCES);
    return node->content;
  }
  std::expected<std::string, Errno> ReadLink(const std::string& path) override {
    const auto tree = files_.Current();
    const Node* node = tree->Find(Resolved(*tree, path, false));
    if (node == nullptr) return std::unexpected(ENOENT);
    if (node->kind != Node::Kind::kLink) return std::unexpected(EINVAL);
    return node->content;
  }
  std::expected<std::vector<std::string>, Errno> List(const std::string& path) override {
    const auto tree = files_.Current();
    const Node* node = tree->Find(Resolved(*tree, path, true));
    if (node == nullptr) return std::unexpected(ENOENT);
    return std::vector<std::string>(node->children.begin(), node->children.end());
  }
  // The border to FUSE answers these.
  Errno CreateFile(const std::string&) override { return EACCES; }
  Errno RemoveFile(const std::string&) override { return EPERM; }
  [[nodiscard]] bool Knows(const std::string& path) const override {
    return path.starts_with("sys/");
  }

  FileSystem& files() { return files_; }

 private:
  static std::string Resolved(const Tree& tree, const std::string& path, bool last) {
    auto rest = base::Split(path.substr(path.starts_with("sys/") ? 4 : 1), '/');
    std::vector<std::string> done;
    while (!rest.empty()) {
      const std::string part = rest.front();
      rest.erase(rest.begin());
      if (part == "..") {
        done.pop_back();
        continue;
      }
      done.push_back(part);
      const Node* node = tree.Find("/" + base::Join(done, "/"));
      if (node == nullptr || node->kind != Node::Kind::kLink || (rest.empty() && !last)) continue;
      done.pop_back();
      const auto target = base::Split(node->content, '/');
      rest.insert(rest.begin(), target.begin(), target.end());
    }
    return "/" + base::Join(done, "/");
  }

  FileSystem files_;
};

std::string Text(Unmounted& subject, const std::string& path) {
  const auto text = subject.Read(path);
  return text ? std::string(base::Trim(*text)) : "unreadable";
}

std::string Target(Unmounted& subject, const std::string& path) {
  const auto link = subject.ReadLink(path);
  return link ? *link : "no link";
}

// The data of the test on a real kernel; that test is tests/kernel.
class KernelExpectations : public ::testing::TestWithParam<const char*> {};

TEST_P(KernelExpectations, HoldForTheSimulation) {
  Unmounted subject(R"(
gpus:
  - {profile: H100-80, pci: "0000:1b:00.0"}
  - {profile: L4, pci: "0000:43:00.0", graphics: true, functions: [audio]}
  - {profile: A100-40, pci: "0000:52:00.0"}
)");
  ASSERT_EQ(subject.Write("sys/simulation/control", "load nvidia"), 0);
  const auto outcome =
      TryExpectations(test_support::SourceFolder() / "tests/kernel/expectations" / GetParam(),
                      {{"gpu", kGpu},
                       {"driver", "nvidia"},
                       {"id", "10de 2330"},
                       {"card", "0000:43:00.0"},
                       {"companion", "0000:43:00.1"},
                       {"pf", "0000:52:00.0"},
                       {"pf_driver", "nvidia"},
                       {"pf_id", "10de 20b0"},
                       {"total", "16"}},
                      subject);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_GT(outcome->steps, 5u);
  EXPECT_THAT(outcome->failures, ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Files, KernelExpectations,
                         ::testing::Values("driver.yaml", "new_id.yaml", "group.yaml",
                                           "virtual_functions.yaml", "files.yaml", "hot_plug.yaml"),
                         [](const auto& param) {
                           const std::string file = param.param;
                           return file.substr(0, file.find('.'));
                         });

TEST(Expectations, WhatIsNotSoIsToldWithItsPlace) {
  Unmounted subject("gpus: [{profile: T4}]");
  const auto folder = MakeTemporaryFolder();
  const auto try_steps = [&](const std::string& steps) {
    std::ofstream(folder / "some.yaml") << "steps:\n" << steps;
    return TryExpectations(folder / "some.yaml", {{"gpu", kGpu}}, subject);
  };
  const auto wrong = try_steps(
      "  - {read: \"sys/bus/pci/devices/{gpu}/vendor\", is: \"0x10de\"}\n"
      "  - {read: \"sys/bus/pci/devices/{gpu}/vendor\", is: \"0x8086\"}\n"
      "  - {write: sys/bus/pci/drivers_probe, value: word}\n");
  ASSERT_TRUE(wrong) << wrong.error().message;
  EXPECT_EQ(wrong->steps, 3u);
  ASSERT_EQ(wrong->failures.size(), 2u);
  EXPECT_THAT(wrong->failures[0], HasSubstr("some.yaml:3:"));
  EXPECT_THAT(wrong->failures[0], HasSubstr("is \"0x10de\", expected \"0x8086\""));
  EXPECT_THAT(wrong->failures[1], HasSubstr("gave ENODEV, expected ok"));
  for (const char* steps :
       {"  - {fly: away}\n", "  - {read: \"{nobody}\"}\n", "  - {write: sys/x}\n",
        "  - {write: sys/x, value: 1, gives: EWHAT}\n"}) {
    const auto malformed = try_steps(steps);
    ASSERT_FALSE(malformed) << steps;
    EXPECT_THAT(malformed.error().message, HasSubstr("some.yaml:2:"));
  }
  fs::remove_all(folder);
}

TEST(Machine, EveryLinkLeadsSomewhere) {
  for (const std::string framework : {"mdev", "vendor"}) {
    Unmounted subject("kernel: {iommufd: true, vgpu: " + framework +
                      "}\nnvswitches: 2\ngpus: [{profile: A100-40, functions: [audio, usb, ucsi], "
                      "graphics: true, foreign_in_group: true}]");
    ASSERT_EQ(subject.Write("sys/simulation/control", "load nvidia"), 0);
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", kGpu), 0);
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers/pci-pf-stub/new_id", "10de 20b0"), 0);
    ASSERT_EQ(subject.Write(std::string("sys/bus/pci/devices/") + kGpu + "/sriov_numvfs", "4"), 0);
    const auto tree = subject.files().Current();
    for (const auto& [path, node] : tree->nodes()) {
      if (node.kind == Node::Kind::kLink) {
        EXPECT_TRUE(subject.List("sys" + path)) << path << " -> " << node.content;
      }
    }
  }
}

TEST(Machine, CardWithItsFunctionsIsOneGroup) {
  Unmounted subject(
      "gpus: [{profile: L4, graphics: true, functions: [audio, usb, ucsi], foreign_in_group: "
      "true}]");
  const std::string gpu = std::string("sys") + kPci + kGpu;
  EXPECT_EQ(Text(subject, gpu + "/class"), "0x030000");
  EXPECT_THAT(
      *subject.List("sys/kernel/iommu_groups/40/devices"),
      UnorderedElementsAre(kGpu, "0000:1b:00.1", "0000:1b:00.2", "0000:1b:00.3", "0000:1b:1f.0"));
  EXPECT_EQ(Target(subject, gpu + "/consumer:pci:0000:1b:00.1"),
            "../../virtual/devlink/pci:0000:1b:00.0--pci:0000:1b:00.1");
  EXPECT_EQ(Target(subject, "sys/bus/pci/devices/0000:1b:00.1/driver"),
            "../../../bus/pci/drivers/snd_hda_intel");
  EXPECT_EQ(Target(subject, "sys/bus/pci/devices/0000:1b:1f.0/driver"),
            "../../../bus/pci/drivers/i40e");
}

TEST(Machine, WithoutIommuDoesWhatTheKernelDoes) {
  Unmounted subject("kernel: {iommu: false}\ngpus: [{profile: T4}]");
  ASSERT_EQ(subject.Write("sys/simulation/control", "load nvidia"), 0);
  const auto outcome = TryExpectations(
      test_support::SourceFolder() / "tests/kernel/expectations_without_iommu/driver.yaml",
      {{"gpu", kGpu}, {"driver", "nvidia"}}, subject);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_GT(outcome->steps, 5u);
  EXPECT_THAT(outcome->failures, ::testing::IsEmpty());
}

TEST(Machine, KernelWithoutVfioHasNoDriverForIt) {
  Unmounted subject("kernel: {vfio: false}\ngpus: [{profile: T4}]");
  EXPECT_FALSE(subject.List("sys/bus/pci/drivers/vfio-pci"));
}

TEST(Machine, VariantDriversAreThere) {
  Unmounted subject("kernel: {variants: [nvgrace_gpu_vfio_pci]}\ngpus: [{profile: GB200}]");
  const std::string gpu = std::string("sys") + kPci + kGpu;
  ASSERT_EQ(subject.Write(gpu + "/driver_override", "nvgrace_gpu_vfio_pci"), 0);
  EXPECT_EQ(subject.Write("sys/bus/pci/drivers/nvgrace_gpu_vfio_pci/bind", kGpu), 0);
}

TEST(Machine, IommufdGivesEachDeviceANode) {
  Unmounted subject("kernel: {iommufd: true}\ngpus: [{profile: T4, count: 2}]");
  for (const char* address : {"0000:1b:00.0", "0000:43:00.0"}) {
    ASSERT_EQ(subject.Write(std::string("sys") + kPci + address + "/driver_override", "vfio-pci"),
              0);
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers_probe", address), 0);
  }
  EXPECT_THAT(*subject.List(std::string("sys") + kPci + "0000:43:00.0/vfio-dev"),
              UnorderedElementsAre("vfio1"));
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/unbind", "0000:43:00.0"), 0);
  EXPECT_FALSE(subject.List(std::string("sys") + kPci + "0000:43:00.0/vfio-dev"));
}

TEST(Machine, FaultsMakeWritesFailUntilTheyEnd) {
  Unmounted subject("gpus: [{profile: A100-40}]");
  const std::string gpu = std::string("sys") + kPci + kGpu;
  ASSERT_EQ(subject.Write("sys/simulation/control", "fault 0000:1b:00.0 bind EIO"), 0);
  EXPECT_EQ(Text(subject, "sys/simulation/faults"), "0000:1b:00.0 bind EIO");
  ASSERT_EQ(subject.Write(gpu + "/driver_override", "vfio-pci"), 0);
  EXPECT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/bind", kGpu), EIO);
  EXPECT_EQ(Target(subject, gpu + "/driver"), "no link");
  ASSERT_EQ(subject.Write("sys/simulation/control", "fault 0000:1b:00.0 bind none"), 0);
  EXPECT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/bind", kGpu), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/unbind", kGpu), 0);
  ASSERT_EQ(subject.Write(gpu + "/driver_override", "pci-pf-stub"), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers_probe", kGpu), 0);
  ASSERT_EQ(subject.Write("sys/simulation/control", "fault 0000:1b:00.0 sriov ENOMEM"), 0);
  EXPECT_EQ(subject.Write(gpu + "/sriov_numvfs", "2"), ENOMEM);
  EXPECT_EQ(Text(subject, gpu + "/sriov_numvfs"), "0");
}

TEST(Machine, WhatIsNoCommandIsRefused) {
  Unmounted subject("gpus: [{profile: T4}]");
  for (const char* line : {"", "fly", "fault 0000:1b:00.0 bind", "fault 0000:1b:00.0 wings EIO",
                           "fault 0000:1b:00.0 bind EWHAT", "load", "load nvidia 580 for-ever",
                           "load nvidia 580 while-used now"}) {
    EXPECT_EQ(subject.Write("sys/simulation/control", line), EINVAL) << line;
  }
  EXPECT_EQ(subject.Write("sys/simulation/control", "fault 0000:ff:00.0 bind EIO"), ENODEV);
  EXPECT_EQ(subject.Write("sys/simulation/control", "load other"), ENOENT);
}

// An A100 with virtual functions as sriov-manage makes them, and NVIDIA's driver with a vGPU
// manager.
class VirtualFunctions : public ::testing::Test {
 protected:
  static std::string Description(const std::string& framework) {
    return "kernel: {vgpu: " + framework + "}\ngpus: [{profile: A100-40}]";
  }
  static void Make(Unmounted& subject, const std::string& count) {
    ASSERT_EQ(subject.Write("sys/simulation/control", "load nvidia"), 0);
    const std::string gpu = std::string("sys") + kPci + kGpu;
    ASSERT_EQ(subject.Write(gpu + "/sriov_numvfs", count), ENOENT) << "NVIDIA's driver cannot";
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", kGpu), 0);
    ASSERT_EQ(subject.Write(gpu + "/driver_override", "pci-pf-stub"), 0);
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers_probe", kGpu), 0);
    ASSERT_EQ(subject.Write(gpu + "/sriov_numvfs", count), 0);
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers/pci-pf-stub/unbind", kGpu), 0);
    ASSERT_EQ(subject.Write(gpu + "/driver_override", "\n"), 0);
    ASSERT_EQ(subject.Write("sys/bus/pci/drivers_probe", kGpu), 0);
  }
  // "/name" of a type's folder, by the number that the profile gives it.
  static std::uint32_t TypeOf(const std::string& name) {
    const Machine machine = MachineOf(Description("mdev"));
    for (const auto& type : machine.gpus()[0].types) {
      if (type.name == "NVIDIA A100X-" + name) return type.id;
    }
    ADD_FAILURE() << "no type " << name;
    return 0;
  }
  static std::string Types(const std::string& address, const std::string& name) {
    return "sys/class/mdev_bus/" + address + "/mdev_supported_types/nvidia-" +
           std::to_string(TypeOf(name));
  }
};

TEST_F(VirtualFunctions, WithoutVgpuManagerNvidiasDriverLeavesThemAlone) {
  Unmounted subject(Description("none"));
  Make(subject, "2");
  EXPECT_EQ(Target(subject, std::string("sys") + kPci + "0000:1b:00.4/driver"), "no link");
  EXPECT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/bind", "0000:1b:00.4"), EPERM);
}

// vgpu-device-manager.md section 4: parents are the virtual functions, each of one vGPU.
TEST_F(VirtualFunctions, MediatedDevicesAreMadeAndRemoved) {
  Unmounted subject(Description("mdev"));
  Make(subject, "16");
  EXPECT_EQ(subject.List("sys/class/mdev_bus")->size(), 16u);
  const std::string first = Types("0000:1b:00.4", "10C");
  const std::string uuid = "11111111-2222-3333-4444-555555555555";
  EXPECT_EQ(Text(subject, first + "/name"), "NVIDIA A100X-10C");
  EXPECT_EQ(Text(subject, first + "/available_instances"), "1");
  EXPECT_EQ(subject.Write(first + "/create", "no-uuid"), EINVAL);
  ASSERT_EQ(subject.Write(first + "/create", uuid), 0);
  EXPECT_EQ(Text(subject, first + "/available_instances"), "0") << "a virtual function takes one";
  EXPECT_EQ(subject.Write(first + "/create", "21111111-2222-3333-4444-555555555555"), ENOSPC);
  EXPECT_EQ(subject.Write(Types("0000:1b:00.5", "10C") + "/create", uuid), EEXIST);
  EXPECT_EQ(Text(subject, Types("0000:1b:00.5", "4C") + "/available_instances"), "0")
      << "all of one size";
  const std::string mdev = "sys/bus/mdev/devices/" + uuid;
  EXPECT_EQ(Target(subject, mdev), "../../../devices/pci0000:1b/0000:1b:00.4/" + uuid);
  EXPECT_EQ(Text(subject, mdev + "/mdev_type/name"), "NVIDIA A100X-10C");
  EXPECT_EQ(Target(subject, mdev + "/driver"), "../../../../bus/mdev/drivers/vfio_mdev");
  EXPECT_NE(Target(subject, mdev + "/iommu_group"), "no link");
  // As many as the GPU takes (vgpu-device-manager.md section 8.1), over its functions.
  for (int function = 5; function <= 7; ++function) {
    const std::string address = "0000:1b:00." + std::to_string(function);
    EXPECT_EQ(subject.Write(Types(address, "10C") + "/create",
                            std::to_string(function) + "1111111-2222-3333-4444-555555555555"),
              0);
  }
  EXPECT_EQ(Text(subject, Types("0000:1b:01.0", "10C") + "/available_instances"), "0");
  ASSERT_EQ(subject.Write("sys/simulation/control", "use " + uuid), 0);
  EXPECT_EQ(subject.Write(mdev + "/remove", "1"), EBUSY);
  ASSERT_EQ(subject.Write("sys/simulation/control", "leave " + uuid), 0);
  EXPECT_EQ(subject.Write(mdev + "/remove", "0"), 0);
  ASSERT_EQ(subject.Write(mdev + "/remove", "1"), 0);
  EXPECT_FALSE(subject.List(mdev));
  EXPECT_EQ(Text(subject, first + "/available_instances"), "1");
}

TEST_F(VirtualFunctions, OldGpusAreParentsThemselves) {
  Unmounted subject("kernel: {vgpu: mdev}\ngpus: [{profile: T4}]");
  EXPECT_FALSE(subject.List("sys/class/mdev_bus")) << "no driver is loaded";
  ASSERT_EQ(subject.Write("sys/simulation/control", "load nvidia"), 0);
  const std::string type =
      std::string("sys/class/mdev_bus/") + kGpu + "/mdev_supported_types/nvidia-232";
  EXPECT_EQ(Text(subject, type + "/name"), "GRID T4-4Q");
  EXPECT_EQ(Text(subject, type + "/available_instances"), "4");
  ASSERT_EQ(subject.Write(type + "/create", "11111111-2222-3333-4444-555555555555"), 0);
  EXPECT_EQ(Text(subject, type + "/available_instances"), "3");
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", kGpu), 0);
  EXPECT_TRUE(subject.List("sys/bus/mdev/devices")->empty()) << "they end with the driver";
}

// virtualisation-and-olm.md section 5.
TEST_F(VirtualFunctions, VendorAttributesMakeAndRemoveVgpus) {
  Unmounted subject(Description("vendor"));
  Make(subject, "16");
  EXPECT_FALSE(subject.List("sys/class/mdev_bus"));
  const auto attribute = [](int function, const char* name) {
    return std::string("sys") + kPci + "0000:1b:00." + std::to_string(function) + "/nvidia/" + name;
  };
  const std::string type = std::to_string(TypeOf("20C"));
  EXPECT_THAT(Text(subject, attribute(4, "creatable_vgpu_types")),
              HasSubstr("ID    : vGPU Name\n"));
  EXPECT_THAT(Text(subject, attribute(4, "creatable_vgpu_types")),
              HasSubstr(type + "  : NVIDIA A100X-20C"));
  EXPECT_EQ(Text(subject, attribute(4, "current_vgpu_type")), "0");
  EXPECT_EQ(subject.Write(attribute(4, "current_vgpu_type"), "0"), EPERM) << "there is none";
  EXPECT_EQ(subject.Write(attribute(4, "current_vgpu_type"), "word"), EINVAL);
  ASSERT_EQ(subject.Write(attribute(4, "current_vgpu_type"), type), 0);
  EXPECT_EQ(subject.Write(attribute(4, "current_vgpu_type"), type), EPERM) << "there is one";
  EXPECT_EQ(Text(subject, attribute(5, "creatable_vgpu_types")),
            "ID    : vGPU Name\n" + type + "  : NVIDIA A100X-20C")
      << "all of one size";
  ASSERT_EQ(subject.Write(attribute(5, "current_vgpu_type"), type), 0);
  EXPECT_EQ(Text(subject, attribute(6, "creatable_vgpu_types")), "ID    : vGPU Name") << "full";
  EXPECT_EQ(subject.Write(attribute(6, "current_vgpu_type"), type), EINVAL);
  EXPECT_EQ(Text(subject, attribute(6, "current_vgpu_type")), "0");
  ASSERT_EQ(subject.Write("sys/simulation/control", "use 0000:1b:00.4"), 0);
  EXPECT_EQ(subject.Write(attribute(4, "current_vgpu_type"), "0"), EBUSY);
  ASSERT_EQ(subject.Write("sys/simulation/control", "leave 0000:1b:00.4"), 0);
  ASSERT_EQ(subject.Write(attribute(4, "current_vgpu_type"), "0"), 0);
  ASSERT_EQ(subject.Write("sys/simulation/control", "fault 0000:1b:00.4 vgpu EIO"), 0);
  EXPECT_EQ(subject.Write(attribute(4, "current_vgpu_type"), type), EIO);
}

// MIG-backed types need their GPU instance, and there are no others while MIG is on.
TEST_F(VirtualFunctions, MigDecidesWhichTypesThereAre) {
  TestNode node("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 2}}}]");
  Unmounted subject(Description("mdev"), node.state_path());
  Make(subject, "16");
  EXPECT_EQ(Text(subject, Types("0000:1b:00.4", "10C") + "/available_instances"), "0");
  EXPECT_EQ(Text(subject, Types("0000:1b:00.4", "1-5C") + "/available_instances"), "1");
  EXPECT_EQ(Text(subject, Types("0000:1b:00.4", "2-10C") + "/available_instances"), "0");
  for (int function = 4; function <= 5; ++function) {
    ASSERT_EQ(subject.Write(Types("0000:1b:00." + std::to_string(function), "1-5C") + "/create",
                            std::to_string(function) + "1111111-2222-3333-4444-555555555555"),
              0);
  }
  EXPECT_EQ(Text(subject, Types("0000:1b:00.6", "1-5C") + "/available_instances"), "0")
      << "both instances are taken";
}

// NVML has the GPUs that NVIDIA's driver has.
// Linux: kernel/module/sysfs.c; driver-lifecycle.md sections 4.3 and 9.6: who prepares a node reads
// refcnt.
TEST(Machine, ModulesAreThereWhileTheyAreLoaded) {
  Unmounted machine("gpus: [{profile: T4}]");
  EXPECT_EQ(machine.Read("sys/module/nvidia/refcnt").error(), ENOENT);
  ASSERT_EQ(machine.Write("sys/simulation/control", "load nvidia 580.95.05\n"), 0);
  EXPECT_EQ(*machine.Read("sys/module/nvidia/refcnt"), "2\n") << "by the modules built on it";
  EXPECT_EQ(*machine.Read("sys/module/nvidia/version"), "580.95.05\n");
  EXPECT_THAT(*machine.List("sys/module/nvidia/holders"),
              UnorderedElementsAre("nvidia_modeset", "nvidia_uvm"));
  EXPECT_EQ(*machine.Read("sys/module/nvidia_uvm/refcnt"), "0\n");
  const auto first = machine.files().Current()->Find("/module/nvidia")->incarnation;
  ASSERT_EQ(machine.Write("sys/simulation/control", "unload nvidia"), 0);
  EXPECT_EQ(machine.Read("sys/module/nvidia/refcnt").error(), ENOENT);
  EXPECT_EQ(machine.Read("sys/module/nvidia_uvm/refcnt").error(), ENOENT);
  ASSERT_EQ(machine.Write("sys/simulation/control", "load nvidia"), 0);
  EXPECT_NE(machine.files().Current()->Find("/module/nvidia")->incarnation, first);
}

// section 11.2 step 6
TEST(Machine, AVgpuManagerHasAnotherModuleOnTop) {
  Unmounted machine("kernel: {vgpu: mdev}\ngpus: [{profile: T4}]");
  ASSERT_EQ(machine.Write("sys/simulation/control", "load nvidia"), 0);
  EXPECT_THAT(*machine.List("sys/module/nvidia/holders"), UnorderedElementsAre("nvidia_vgpu_vfio"));
  EXPECT_EQ(*machine.Read("sys/module/nvidia/refcnt"), "1\n");
}

TEST(Machine, AContainersModuleStaysAsLongAsSomebodyUsesIt) {
  TestNode node("gpus: [{profile: T4}]");
  auto container = *StateFile::Open(node.state_path());
  auto program = *StateFile::Open(node.state_path());
  ASSERT_TRUE(container->UseDriver());
  ASSERT_TRUE(program->UseDriver());
  Unmounted machine("gpus: [{profile: T4}]", node.state_path());
  ASSERT_EQ(machine.Write("sys/simulation/control", "load nvidia 580.95.05 while-used"), 0);
  EXPECT_EQ(*machine.Read("sys/module/nvidia/refcnt"), "3\n");
  container.reset();  // killed: it could not unload anything
  EXPECT_EQ(*machine.Read("sys/module/nvidia/refcnt"), "3\n");
  EXPECT_EQ(node.file().Snapshot()->driver_loaded, 1u);
  program.reset();
  EXPECT_EQ(machine.Read("sys/module/nvidia/refcnt").error(), ENOENT);
  EXPECT_EQ(node.file().Snapshot()->driver_loaded, 0u) << "no program can begin to use it";
  EXPECT_EQ(node.file().Snapshot()->gpus[0].detached, 1u);
}

// A state that was removed and made anew is another file, with other users.
TEST(Machine, UsersAreThoseOfTheStateThatIsThere) {
  TestNode node("gpus: [{profile: T4}]");
  Unmounted machine("gpus: [{profile: T4}]", node.state_path());
  const auto copy = *node.file().Snapshot();
  fs::remove(node.state_path());
  auto program = *StateFile::Create(node.state_path(), copy);
  ASSERT_TRUE(program->UseDriver());
  ASSERT_EQ(machine.Write("sys/simulation/control", "load nvidia 580.95.05 while-used"), 0);
  EXPECT_EQ(*machine.Read("sys/module/nvidia/refcnt"), "3\n");
}

TEST(Machine, TheDriverOfAVirtualMachinesVgpuStaysWithoutUsers) {
  TestNode node("gpus: [{profile: T4}]");
  Unmounted machine("kernel: {vgpu: mdev}\ngpus: [{profile: T4}]", node.state_path());
  auto container = *StateFile::Open(node.state_path());
  ASSERT_TRUE(container->UseDriver());
  ASSERT_EQ(machine.Write("sys/simulation/control", "load nvidia 580.95.05 while-used"), 0);
  constexpr const char* kUuid = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";
  const std::string type =
      std::string("sys/class/mdev_bus/") + kGpu + "/mdev_supported_types/nvidia-232";
  ASSERT_EQ(machine.Write(type + "/create", kUuid), 0);
  ASSERT_EQ(machine.Write("sys/simulation/control", std::string("use ") + kUuid), 0);
  container.reset();
  EXPECT_EQ(*machine.Read("sys/module/nvidia/refcnt"), "1\n");
  ASSERT_EQ(machine.Write("sys/simulation/control", std::string("leave ") + kUuid), 0);
  EXPECT_EQ(machine.Read("sys/module/nvidia/refcnt").error(), ENOENT);
}

TEST(Machine, StateIsToldWhichGpusTheDriverHas) {
  TestNode node("gpus: [{profile: T4, count: 2}]");
  Unmounted subject("gpus: [{profile: T4, count: 2}]", node.state_path());
  const auto detached = [&] {
    const auto state = node.file().Snapshot();
    return std::pair{state->gpus[0].detached, state->gpus[1].detached};
  };
  EXPECT_EQ(detached(), std::pair(1u, 1u)) << "no driver is loaded";
  ASSERT_EQ(subject.Write("sys/simulation/control", "load nvidia"), 0);
  EXPECT_EQ(detached(), std::pair(0u, 0u));
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", kGpu), 0);
  EXPECT_EQ(detached(), std::pair(1u, 0u));
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers_probe", kGpu), 0);
  EXPECT_EQ(detached(), std::pair(0u, 0u));
}

}  // namespace
}  // namespace pitcrew::simulation::sysfs

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
      TryExpectations(fs::path(PITCREW_SOURCE_DIR) / "tests/kernel/expectations" / GetParam(),
                      {{"gpu", kGpu},
                       {"driver", "nvidia"},
                       {"id", "10de 2330"},
                       {"card", "0000:43:00.0"},
                       {"companion", "0000:43:00.1"},
                       {"pf", "0000:52:00.0"},
                       {"pf_driver", "nvidia"},
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

TEST(Machine, WithoutIommuNobodyIsBoundToVfio) {
  Unmounted subject("kernel: {iommu: false}\ngpus: [{profile: T4}]");
  const std::string gpu = std::string("sys") + kPci + kGpu;
  EXPECT_EQ(Target(subject, gpu + "/iommu_group"), "no link");
  EXPECT_TRUE(subject.List("sys/class/iommu")->empty());
  EXPECT_TRUE(subject.List("sys/kernel/iommu_groups")->empty());
  ASSERT_EQ(subject.Write(gpu + "/driver_override", "vfio-pci"), 0);
  EXPECT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/bind", kGpu), EINVAL);
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
                           "fault 0000:1b:00.0 bind EWHAT", "load"}) {
    EXPECT_EQ(subject.Write("sys/simulation/control", line), EINVAL) << line;
  }
  EXPECT_EQ(subject.Write("sys/simulation/control", "fault 0000:ff:00.0 bind EIO"), ENODEV);
  EXPECT_EQ(subject.Write("sys/simulation/control", "load other"), ENOENT);
}

// NVML has the GPUs that NVIDIA's driver has.
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

// What vfio-manage is told and what it says, over a tree of plain files (vfio-manager.md section
// 2).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "node/vfio_manager/manager.h"
#include "node/vfio_manager/options.h"
#include "node/vfio_manager/plugged_in.h"
#include "node/vfio_manager/status_text.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::vfio_manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

base::Result<std::optional<Options>> Read(std::vector<std::string> words,
                                          std::map<std::string, std::string> environment = {}) {
  words.insert(words.begin(), "vfio-manage");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  return ReadOptions(static_cast<int>(pointers.size()), pointers.data(),
                     [&](const std::string& name) -> std::optional<std::string> {
                       const auto found = environment.find(name);
                       if (found == environment.end()) return std::nullopt;
                       return found->second;
                     });
}

TEST(Options, BindAndUnbindNeedExactlyOneSelection) {
  RecordProperty("holds", "vfio-manager.md #10, driver-lifecycle.md #106");
  for (const char* command : {"bind", "unbind"}) {
    EXPECT_EQ(Read({command}).error().message, "either --all or --device-id must be specified");
    EXPECT_EQ(Read({command, "--all", "-d", "0000:01:00.0"}).error().message,
              "cannot specify both --all and --device-id");
    EXPECT_TRUE((*Read({command, "-a"}))->all);
    EXPECT_EQ((*Read({command, "--device-id", "0000:01:00.0"}))->device, "0000:01:00.0");
  }
  EXPECT_THAT(Read({"give"}).error().message, HasSubstr("it is bind, unbind or status"));
}

TEST(Options, VariablesAndDefaults) {
  const auto plain = **Read({"bind", "--all"});
  EXPECT_FALSE(plain.switches);
  EXPECT_EQ(plain.host_root, "/");
  EXPECT_EQ(plain.timeout, std::chrono::seconds(60));
  const auto told = **Read({"unbind", "--all"}, {{"BIND_NVSWITCHES", "true"},
                                                 {"HOST_ROOT", "/host"},
                                                 {"VFIO_MANAGE_TIMEOUT", "3s"},
                                                 {"NODE_NAME", "gpu-a"}});
  EXPECT_TRUE(told.switches);
  EXPECT_EQ(told.host_root, "/host");
  EXPECT_EQ(told.timeout, std::chrono::seconds(3));
  EXPECT_EQ(told.node_name, "gpu-a");
  EXPECT_TRUE((*Read({"bind", "--all", "--bind-nvswitches"}))->switches);
  EXPECT_TRUE((*Read({"unbind", "--all", "--unbind-nvswitches"}))->switches);
  EXPECT_THAT(Read({"bind", "--all", "--timeout", "60"}).error().message, HasSubstr("its unit"));
  EXPECT_EQ((*Read({"status", "-o", "json"}))->format, Format::kJson);
  EXPECT_THAT(Read({"status", "-o", "xml"}).error().message, HasSubstr("table, json and yaml"));
}

class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest() {
    folder_.Write("proc/sys/kernel/osrelease", "6.8.0-60-generic\n");
    folder_.Write("sys/class/iommu/dmar0/name", "dmar0\n");
    folder_.Write("sys/bus/pci/drivers_probe", "");
    for (const char* driver : {"nvidia", "vfio-pci"}) {
      folder_.Write(std::string("sys/bus/pci/drivers/") + driver + "/bind", "");
      folder_.Write(std::string("sys/bus/pci/drivers/") + driver + "/unbind", "");
    }
    Add("0000:17:00.0", "0x030200", "0x10de", "vfio-pci", "12");
    Add("0000:65:00.0", "0x030200", "0x10de", "nvidia", "13");
    Add("0000:66:00.0", "0x010802", "0x144d", "nvme", "13");
    Add("0000:07:00.0", "0x068000", "0x10de", "", "3");
  }
  void Add(const std::string& address, const std::string& class_code, const std::string& vendor,
           const std::string& driver, const std::string& group) const {
    const auto inside = "sys/bus/pci/devices/" + address + "/";
    folder_.Write(inside + "vendor", vendor + "\n");
    folder_.Write(inside + "device", "0x2330\n");
    folder_.Write(inside + "class", class_code + "\n");
    folder_.Write(inside + "driver_override", "(null)\n");
    folder_.Write(inside + "modalias", "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n");
    const auto path = folder_.path() / inside;
    if (!driver.empty())
      std::filesystem::create_symlink("../../drivers/" + driver, path / "driver");
    std::filesystem::create_symlink("../../../../kernel/iommu_groups/" + group,
                                    path / "iommu_group");
    folder_.Write("sys/kernel/iommu_groups/" + group + "/devices/" + address + "/x", "");
  }
  base::Status Run(const std::vector<std::string>& words) const {
    auto options = **Read(words, {{"VFIO_MANAGE_TIMEOUT", "0s"}});
    options.root = folder_.path();
    options.host_root = folder_.path();
    return vfio_manager::Run(options, SettingsOf(options), {});
  }
  test_support::TemporaryFolder folder_;
};

TEST_F(ManagerTest, WhatIsNoGpuIsToldAndNoFailure) {
  RecordProperty("holds", "vfio-manager.md #11, driver-lifecycle.md #106");
  EXPECT_TRUE(Run({"bind", "-d", "0000:66:00.0"}));
  EXPECT_TRUE(Run({"bind", "-d", "0000:07:00.0"})) << "an NVSwitch without the flag";
  EXPECT_THAT(Run({"bind", "-d", "0000:99:00.0"}).error().message,
              HasSubstr("failed to get NVIDIA device: "));
  EXPECT_THAT(Run({"bind", "-d", "rubbish"}).error().message,
              HasSubstr("failed to get NVIDIA device: "));
}

TEST_F(ManagerTest, AFailedDeviceIsNamedAndEndsInFailure) {
  const auto all = Run({"bind", "--all"});
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().reason, "DevicesFailed");
  EXPECT_THAT(all.error().message,
              AllOf(HasSubstr("0000:65:00.0"), ::testing::Not(HasSubstr("0000:17:00.0"))));
  const auto one = Run({"bind", "-d", "0000:65:00.0"});
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().reason, "IommuGroupShared");
  EXPECT_THAT(one.error().message,
              HasSubstr("failed to bind device 0000:65:00.0 to vfio driver: IOMMU group 13"));
  EXPECT_TRUE(Run({"bind", "-d", "0000:17:00.0"})) << "it is with VFIO";
}

TEST_F(ManagerTest, TheStatusIsATableOrData) {
  const auto status = vfio::ReadStatus(
      {.root = host::Root(folder_.path()), .host_root = host::Root(folder_.path())});
  ASSERT_TRUE(status);
  EXPECT_THAT(ToTable(*status),
              AllOf(HasSubstr("DEVICE        KIND      DRIVER    VFIO MODULE  GROUP  STATE\n"),
                    HasSubstr("0000:07:00.0  nvswitch  -         vfio-pci     3      free\n"),
                    HasSubstr("0000:17:00.0  gpu       vfio-pci  vfio-pci     12     ready\n"),
                    HasSubstr("0000:65:00.0  gpu       nvidia    vfio-pci     13     "
                              "IommuGroupShared\n"),
                    HasSubstr("\n0000:65:00.0: IommuGroupShared: IOMMU group 13")));
  const auto json = ToJson(*status);
  const auto& gpu = json["devices"][2];
  EXPECT_EQ(gpu["address"], "0000:65:00.0");
  EXPECT_EQ(gpu["id"], "10de:2330");
  EXPECT_EQ(gpu["driver"], "nvidia");
  EXPECT_EQ(gpu["iommuGroup"], 13);
  EXPECT_EQ(gpu["sharesGroupWith"], codec::Json::array({"0000:66:00.0"}));
  EXPECT_EQ(gpu["ready"], false);
  EXPECT_EQ(gpu["obstacles"][0]["reason"], "IommuGroupShared");
  EXPECT_EQ(json["devices"][0]["driver"], nullptr);
  EXPECT_EQ(json["devices"][1]["ready"], true);
}

// A board is plugged in, and somebody has it open in that moment.
class PluggedInTest : public ManagerTest {
 protected:
  static constexpr const char* kBoard = "0000:81:00.0";
  PluggedInTest() {
    Add(kBoard, "0x030200", "0x10de", "nvidia", "20");
    // This process uses it: /dev/full stands for its VFIO group.
    folder_.Write("sys/class/vfio/20/dev", "1:7\n");
    use_ = base::FileDescriptor(::open("/dev/full", O_RDWR | O_CLOEXEC));
    options_.action = Action::kBind;
    options_.all = true;
    plugged_in_.Note({.events = {{.action = "add",
                                  .device_path = "/devices/pci0000:80/0000:81:00.0",
                                  .fields = {{"SUBSYSTEM", "pci"}, {"PCI_SLOT_NAME", kBoard}}}}});
    EXPECT_TRUE(plugged_in_.due().passed());
    EXPECT_TRUE(plugged_in_.Give({}));
  }
  [[nodiscard]] std::string Asked() const {
    return base::ReadFile(folder_.path() / "sys/bus/pci/drivers/nvidia/unbind").value_or("?");
  }
  void Bind(const std::string& driver) const {
    const auto link = folder_.path() / "sys/bus/pci/devices" / kBoard / "driver";
    std::filesystem::remove(link);
    std::filesystem::create_symlink("../../drivers/" + driver, link);
  }

  Options options_;
  // The processes are those of this machine.
  const vfio::Settings settings_{.root = host::Root(folder_.path()), .host_root = host::Root("/")};
  PluggedIn plugged_in_{options_, settings_};
  base::FileDescriptor use_;
};

TEST_F(PluggedInTest, ABoardThatFailsIsTriedAgain) {
  EXPECT_EQ(Asked(), "") << "it was in use";
  EXPECT_FALSE(plugged_in_.due().never());
  use_ = {};
  ASSERT_TRUE(plugged_in_.Give({}));
  EXPECT_EQ(Asked(), kBoard);
  EXPECT_FALSE(plugged_in_.due().never()) << "plain files do not do what they are told";
  Bind("vfio-pci");
  ASSERT_TRUE(plugged_in_.Give({}));
  EXPECT_TRUE(plugged_in_.due().never());
}

TEST_F(PluggedInTest, ABoardThatSomebodyBindsMeanwhileIsLeftAlone) {
  use_ = {};
  Bind("pci-pf-stub");
  ASSERT_TRUE(plugged_in_.Give({}));
  EXPECT_EQ(Asked(), "");
  EXPECT_TRUE(plugged_in_.due().never());
}

TEST_F(PluggedInTest, ABoardThatIsPulledIsForgotten) {
  std::filesystem::remove_all(folder_.path() / "sys/bus/pci/devices" / kBoard);
  ASSERT_TRUE(plugged_in_.Give({}));
  EXPECT_TRUE(plugged_in_.due().never());
}

}  // namespace
}  // namespace pitcrew::node::vfio_manager

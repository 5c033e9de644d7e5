// What has to be known before a device goes to a virtual machine, over a tree of plain files:
// groups, consumers, modaliases, users of device nodes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "host/device_users.h"
#include "host/iommu.h"
#include "host/modalias.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;
using gpu::PciAddress;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class VfioFactsTest : public ::testing::Test {
 protected:
  VfioFactsTest() {
    char name[] = "/tmp/pitcrew-vfio-facts-XXXXXX";
    path_ = ::mkdtemp(name);
    root_ = Root(path_);
  }
  ~VfioFactsTest() override { fs::remove_all(path_); }

  void Write(const std::string& inside, const std::string& text) {
    ASSERT_TRUE(base::WriteFileAtomically(path_ / inside, text));
  }
  void Folder(const std::string& inside) { fs::create_directories(path_ / inside); }

  fs::path path_;
  Root root_;
  PciAddress gpu_ = *PciAddress::Parse("0000:65:00.0");
};

std::vector<std::string> Names(const std::vector<PciAddress>& addresses) {
  std::vector<std::string> names;
  for (const auto& address : addresses) names.push_back(address.SysfsName());
  return names;
}

TEST_F(VfioFactsTest, NoIommuIsAnEmptyList) {  // virtualisation-and-olm.md 4.1
  EXPECT_THAT(*ListIommus(root_), IsEmpty());
  Folder("sys/class/iommu/dmar1");
  Folder("sys/class/iommu/dmar0");
  EXPECT_THAT(*ListIommus(root_), ElementsAre("dmar0", "dmar1"));
}

TEST_F(VfioFactsTest, AGroupHasItsPciDevices) {
  EXPECT_EQ(IommuGroupMembers(root_, 12).error().code, base::Code::kNotFound);
  for (const char* name :
       {"0000:65:00.1", "0000:65:00.0", "c73f1fa6-489e-4834-9476-d70dabd98c40"}) {
    Folder(std::string("sys/kernel/iommu_groups/12/devices/") + name);
  }
  EXPECT_THAT(Names(*IommuGroupMembers(root_, 12)), ElementsAre("0000:65:00.0", "0000:65:00.1"));
}

TEST_F(VfioFactsTest, ConsumersAreThoseThatExist) {  // vfio-manager.md section 6
  const std::string device = "sys/bus/pci/devices/0000:65:00.0/";
  for (const char* name :
       {"consumer:pci:0000:65:00.1", "consumer:pci:0000:65:00.2",
        "consumer:pci:", "consumer:platform:x", "consumer", "supplier:pci:0000:64:00.0"}) {
    Folder(device + name);
  }
  Folder("sys/bus/pci/devices/0000:65:00.1");
  Folder("sys/bus/pci/devices/0000:64:00.0");
  EXPECT_THAT(Names(*ConsumersOf(root_, gpu_)), ElementsAre("0000:65:00.1"));
  EXPECT_EQ(ConsumersOf(root_, *PciAddress::Parse("0000:66:00.0")).error().code,
            base::Code::kNotFound);
}

PciDevice Member(std::uint32_t class_code, const char* driver) {
  PciDevice device;
  device.class_code = class_code;
  if (driver != nullptr) device.driver = base::Observed<std::string>::Present(driver);
  return device;
}

TEST(IommuGroups, HoldersAreWhatTheKernelRefusesAUserFor) {  // virtualisation-and-olm.md 4.2
  const auto holders = HoldersOfGroup({Member(0x030200, "vfio-pci"), Member(0x060400, "pcieport"),
                                       Member(0x040300, "snd_hda_intel"), Member(0x0c0330, nullptr),
                                       Member(0x030000, "nvgrace_gpu_vfio_pci"),
                                       Member(0x020000, "pci-stub"), Member(0x068000, "nvidia")});
  EXPECT_THAT(holders, ElementsAre(Field(&PciDevice::class_code, 0x040300U),
                                   Field(&PciDevice::class_code, 0x068000U)));
  auto unread = Member(0x010802, nullptr);
  unread.driver = base::Observed<std::string>::Unknown(base::Internal("ReadFailed", "no"));
  EXPECT_EQ(HoldersOfGroup({unread}).size(), 1U) << "unknown is not free";
}

constexpr std::string_view kAliases =
    "alias pci:v00001022d00001537sv*sd*bc*sc*i* ccp\n"
    "alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci\n"
    "alias symbol:vfio_pci_core_enable vfio_pci_core\n"
    "  alias vfio_pci:v000010DEd00002941sv*sd*bc*sc*i* nvgrace_gpu_vfio_pci\n"
    "alias vfio_pci:v000010DEd00002941 broken\n"
    "alias vfio_pci:v*d*sv*sd*bc*sc*i* two words\n"
    "options vfio_pci:v*d*sv*sd*bc*sc*i* no_alias\n";

TEST(Modaliases, ParseByTheirSevenFields) {
  RecordProperty("holds", "vfio-manager.md #1 to #4, driver-lifecycle.md #103");
  EXPECT_EQ(ParseModalias("").error().reason, "MalformedModalias");
  EXPECT_EQ(ParseModalias("pci:foo:bar").error().reason, "MalformedModalias");
  EXPECT_THAT(ParseModalias("pci:v*d*sv*sd*bc*sc*i*")->fields,
              ElementsAre("*", "*", "*", "*", "*", "*", "*"));
  EXPECT_THAT(ParseModalias("pci:v000010DEd00002941sv*sd*bc*sc*i*")->fields,
              ElementsAre("000010DE", "00002941", "*", "*", "*", "*", "*"));
  EXPECT_THAT(ParseModalias("pci:v000010DEd00002941sv000010DEsd00002046bc03sc02i00")->fields,
              ElementsAre("000010DE", "00002941", "000010DE", "00002046", "03", "02", "00"));
}

TEST(Modaliases, OnlyThoseOfVfioAreTaken) {
  RecordProperty("holds", "vfio-manager.md #5, #6, driver-lifecycle.md #104");
  EXPECT_THAT(ParseVfioAliases(""), IsEmpty());
  EXPECT_THAT(ParseVfioAliases("alias pci:v00001022d00001537sv*sd*bc*sc*i* ccp\n"), IsEmpty());
  const auto aliases = ParseVfioAliases(kAliases);
  ASSERT_EQ(aliases.size(), 2U);
  EXPECT_EQ(aliases[0].module, "vfio_pci");
  EXPECT_EQ(aliases[1].module, "nvgrace_gpu_vfio_pci");
  EXPECT_EQ(aliases[1].devices.fields[1], "00002941");
}

TEST(Modaliases, TheClosestDriverWins) {
  RecordProperty("holds", "vfio-manager.md #7 to #9, driver-lifecycle.md #105");
  const auto grace = *ParseModalias("pci:v000010DEd00002941sv000010DEsd00002046bc03sc02i00");
  const auto hopper = *ParseModalias("pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00");
  const auto aliases = ParseVfioAliases(kAliases);
  EXPECT_EQ(BestVfioModule(aliases, grace), "nvgrace_gpu_vfio_pci");
  EXPECT_EQ(BestVfioModule(aliases, hopper), "vfio_pci");
  EXPECT_EQ(BestVfioModule({}, grace), "vfio-pci");
  EXPECT_EQ(BestVfioModule({{hopper, "other"}}, grace), "vfio-pci") << "nothing fits";
  EXPECT_EQ(BestVfioModule({{aliases[0].devices, "first"}, {aliases[0].devices, "second"}}, grace),
            "first");
  EXPECT_EQ(BestVfioModule({aliases[1], {grace, "exact"}, aliases[0]}, grace), "exact");
}

TEST_F(VfioFactsTest, NumbersOfDeviceNodes) {
  Write("dev", "195:254\n");
  EXPECT_EQ(*ReadDeviceNumber(path_ / "dev"), ::makedev(195, 254));
  Write("dev", "4095:1048575\n");
  EXPECT_EQ(*ReadDeviceNumber(path_ / "dev"), ::makedev(4095, 1048575)) << "the largest";
  for (const char* text : {"195", "195:254:0", "195:x", "x:254", ":", "4096:0", "0:1048576"}) {
    Write("dev", text);
    const auto number = ReadDeviceNumber(path_ / "dev");
    ASSERT_FALSE(number) << text;
    EXPECT_EQ(number.error().reason, "MalformedDeviceNumber") << text;
  }
  EXPECT_EQ(ReadDeviceNumber(path_ / "none").error().code, base::Code::kNotFound);
}

// /dev/full stands for a GPU: hardly anybody has it open.
TEST(DeviceUsers, AreProcessesThatHaveTheDeviceOpenUntilTheyCloseIt) {
  const DeviceNumbers devices = {::makedev(1, 7)};
  const auto own = Field(&DeviceUser::pid, ::getpid());
  const auto before = FindDeviceUsers(devices);
  ASSERT_TRUE(before) << before.error().ToString();
  EXPECT_THAT(*before, Not(Contains(own)));
  const int opened = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(opened, 0);
  const auto users = FindDeviceUsers(devices);
  ASSERT_TRUE(users);
  const auto found = std::ranges::find(*users, ::getpid(), &DeviceUser::pid);
  ASSERT_NE(found, users->end());
  EXPECT_THAT(found->files, ElementsAre("/dev/full"));
  EXPECT_THAT(found->ToString(), HasSubstr("(process " + std::to_string(::getpid()) + ")"));
  auto watcher = DeviceUserWatcher::Create();
  ASSERT_TRUE(watcher);
  watcher->Watch(*users);
  watcher->Take();
  ::close(opened);
  pollfd event{watcher->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 10'000), 1) << "the close is told";
  const auto after = FindDeviceUsers(devices);
  ASSERT_TRUE(after);
  EXPECT_THAT(*after, Not(Contains(own)));
}

TEST(DeviceUsers, NobodyUsesNothing) {
  EXPECT_THAT(*FindDeviceUsers({}, "/nowhere"), IsEmpty());
  EXPECT_EQ(FindDeviceUsers({::makedev(1, 7)}, "/nowhere").error().code, base::Code::kNotFound);
}

}  // namespace
}  // namespace pitcrew::host

// Boards without a driver: their registers in a sysfs tree.
#include "node/mig/pci_mode.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/bell.h"
#include "base/file.h"
#include "host/pci_registers.h"
#include "node/mig/change.h"
#include "node/mig/node_gpus.h"
#include "node/mig/plan.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::node::mig {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// mig-manager.md section 5.2.
constexpr std::size_t kChip = 0x0;
constexpr std::uint32_t kGa100 = 0x170000a1;
constexpr std::size_t kBoot = 0x118234;
constexpr std::size_t kMode = 0x1404;
constexpr std::size_t kRequest = 0x118f78;

class RegistersTest : public ::testing::Test {
 protected:
  ~RegistersTest() override { fs::remove_all(root_); }

  // A board whose registers are a file.
  fs::path MakeBoard(const std::string& address, std::uint32_t chip) {
    const auto folder = root_ / "sys/bus/pci/devices" / address;
    fs::create_directories(folder);
    for (const auto& [name, text] :
         std::initializer_list<std::pair<const char*, const char*>>{{"vendor", "0x10de\n"},
                                                                    {"device", "0x20b0\n"},
                                                                    {"class", "0x030200\n"},
                                                                    {"reset", ""}}) {
      EXPECT_TRUE(base::WriteFileAtomically(folder / name, text));
    }
    const int file = ::open((folder / "resource0").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::ftruncate(file, 16 << 20), 0);
    ::close(file);
    Set(folder, kChip, chip);
    Set(folder, kBoot, 0x3ff);
    return folder;
  }
  static void Set(const fs::path& board, std::size_t offset, std::uint32_t value) {
    auto registers = host::PciRegisters::Open(board);
    ASSERT_TRUE(registers) << registers.error().ToString();
    ASSERT_TRUE(registers->Write(offset, value));
  }
  static std::uint32_t Get(const fs::path& board, std::size_t offset) {
    return host::PciRegisters::Open(board)->Read(offset).value();
  }
  // What the board does at a reset.
  static void ResetBoard(const fs::path& board) {
    Set(board, kMode, (Get(board, kRequest) & 0xc000) == 0xc000 ? 0x8000 : 0);
  }

  const fs::path root_ = simulation::MakeTemporaryFolder();
};

TEST_F(RegistersTest, OnlyTheOneChipIsKnown) {
  RecordProperty("holds", "mig-manager.md #35");
  const auto other = MakeBoard("0000:17:00.0", 0x180000a1);
  EXPECT_EQ(ReadModeRegisters(other).error().reason, "NotMigCapable");
  EXPECT_EQ(RequestModeByRegisters(other, true).error().reason, "NotMigCapable");
  EXPECT_EQ(Get(other, kRequest), 0U) << "not written to";
}

TEST_F(RegistersTest, AModeIsAskedForAndCountsAfterAReset) {
  RecordProperty("holds", "mig-manager.md #35");
  const auto board = MakeBoard("0000:17:00.0", kGa100);
  Set(board, kRequest, 0x1234 | 0x8000);
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{false, false}));
  ASSERT_TRUE(RequestModeByRegisters(board, true));
  EXPECT_EQ(Get(board, kRequest), 0xd234U) << "other bits stay";
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{false, true}));
  ResetBoard(board);
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{true, true}));
  ASSERT_TRUE(RequestModeByRegisters(board, false));
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{true, false}));
  ResetBoard(board);
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{false, false}));
}

TEST_F(RegistersTest, BigEndianBoardsToo) {
  const auto board = MakeBoard("0000:17:00.0", kGa100);
  Set(board, 4, 0x01000001);
  // From now on values are swapped.
  Set(board, kChip, kGa100);
  Set(board, kBoot, 0x3ff);
  ASSERT_TRUE(RequestModeByRegisters(board, true));
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{false, true}));
}

TEST_F(RegistersTest, ABoardWithoutRegistersSaysSo) {
  const auto board = MakeBoard("0000:17:00.0", kGa100);
  EXPECT_EQ(host::PciRegisters::Open(board)->Read(16 << 20).error().reason, "NoSuchRegister");
  EXPECT_EQ(host::PciRegisters::Open(board)->Read(2).error().reason, "NoSuchRegister");
  fs::remove(board / "resource0");
  EXPECT_THAT(ReadModeRegisters(board).error().message, HasSubstr("missing bar0 MMIO resource"));
}

TEST_F(RegistersTest, AStopEndsTheWaitForABoardThatStarts) {
  fs::create_directories(root_ / "proc");
  ASSERT_TRUE(base::WriteFileAtomically(root_ / "proc/modules", ""));
  const auto board = MakeBoard("0000:17:00.0", kGa100);
  Set(board, kBoot, 0);
  const auto stop = base::Bell::Create();
  ASSERT_TRUE(stop);
  stop->Ring();
  EXPECT_EQ(ReadModeRegisters(board, stop->fd()).error().code, base::Code::kCancelled);
  // Told to stop, nothing is known of the node: a board whose mode is unknown would be something
  // else.
  NodeGpus node({.root = host::Root(root_), .driver_roots = {root_}});
  EXPECT_EQ(node.Read(stop->fd()).error().code, base::Code::kCancelled);
}

TEST_F(RegistersTest, ANodeWithoutADriverIsReadAndAskedThroughThem) {
  fs::create_directories(root_ / "proc");
  ASSERT_TRUE(base::WriteFileAtomically(root_ / "proc/modules", "ext4 1 0 - Live 0x0\n"));
  const auto second = MakeBoard("0000:65:00.0", kGa100);
  MakeBoard("0000:17:00.0", 0x180000a1);
  NodeGpus node({.root = host::Root(root_), .driver_roots = {root_}});
  auto gpus = node.Read();
  ASSERT_TRUE(gpus) << gpus.error().ToString();
  ASSERT_THAT(*gpus, SizeIs(2));
  EXPECT_TRUE(gpus->at(0).CannotDoMig());
  EXPECT_FALSE(gpus->at(1).CannotDoMig());
  EXPECT_FALSE(node.has_driver());
  const NamedConfig config = {{.mig_enabled = true, .mig_devices = {{"1g.5gb", 7}}}};
  EXPECT_FALSE(AssertModes(*gpus, config));
  ChangeOptions options{.journal = root_ / "run/journal.json", .mode_only = true};
  options.skip_reset = true;
  const auto planner = [&](const std::vector<Gpu>& now) { return PlanConfig(now, config, true); };
  const auto applied = Apply(node, planner, options);
  ASSERT_TRUE(applied) << applied.error().ToString();
  EXPECT_TRUE(applied->needs_reset);
  EXPECT_EQ(Get(second, kRequest) & 0xc000, 0xc000U);
  ResetBoard(second);
  EXPECT_TRUE(AssertModes(*node.Read(), config));
  EXPECT_FALSE(AssertConfig(*node.Read(), config)) << "instances need the driver";
}

TEST_F(RegistersTest, AResetThatChangesNothingIsTakenBack) {
  fs::create_directories(root_ / "proc");
  ASSERT_TRUE(base::WriteFileAtomically(root_ / "proc/modules", ""));
  const auto board = MakeBoard("0000:17:00.0", kGa100);
  NodeGpus node({.root = host::Root(root_), .driver_roots = {root_}});
  ChangeOptions options{.journal = root_ / "run/journal.json", .mode_only = true};
  const NamedConfig config = {{.mig_enabled = true}};
  const auto planner = [&](const std::vector<Gpu>& now) { return PlanConfig(now, config, true); };
  // The file that stands for the board takes the reset, and stays as it is.
  const auto applied = Apply(node, planner, options);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().reason, "OtherGeometry");
  EXPECT_THAT(applied.error().message, HasSubstr("the MIG geometry before is back"));
  EXPECT_EQ(*base::ReadFile(board / "reset"), "1");
  EXPECT_EQ(*ReadModeRegisters(board), (gpu::MigMode{false, false}));
}

}  // namespace
}  // namespace pitcrew::node::mig

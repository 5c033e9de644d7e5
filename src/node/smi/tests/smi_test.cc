// Runs nvidia-smi over the simulated library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "simulation/state/incidents.h"
#include "simulation/testing/process.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::node::smi {
namespace {

using simulation::Outcome;
using simulation::TestNode;
using ::testing::HasSubstr;

const std::string kProgram = test_support::BuildFolder().string() + "/bin/nvidia-smi";

class Smi : public ::testing::Test {
 protected:
  void Start(const std::string& description) {
    node_ = std::make_unique<TestNode>(description);
    node_->Use();
  }
  Outcome Run_(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kProgram);
    auto environment = node_ ? node_->Environment() : std::map<std::string, std::string>{};
    environment["LD_LIBRARY_PATH"] = test_support::BuildFolder().string() + "/lib";
    return simulation::RunProgram(arguments, environment);
  }
  template <class Function>
  void Change(Function change) {
    ASSERT_TRUE(node_->file().Update([&](simulation::NodeState& state) {
      change(state);
      return true;
    }));
  }
  std::unique_ptr<TestNode> node_;
};

TEST_F(Smi, TableOfEverything) {
  Start(
      "gpus: [{profile: H100-80}, {profile: A100-40, mig: {enabled: true, devices: {2g.10gb: "
      "1}}}]");
  Change(
      [](auto& state) { simulation::AddProcess(state.gpus[0], 77, "/bin/job", 1 << 30, false); });
  const auto outcome = Run_({});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("Driver Version: 580.95.05"));
  EXPECT_THAT(outcome.output, HasSubstr("CUDA Version: 13.0"));
  EXPECT_THAT(outcome.output, HasSubstr("NVIDIA H100 80GB HBM3"));
  EXPECT_THAT(outcome.output, HasSubstr("00000000:1B:00.0 Off"));
  EXPECT_THAT(outcome.output, HasSubstr("81559MiB"));
  EXPECT_THAT(outcome.output, HasSubstr("2g.10gb"));
  EXPECT_THAT(outcome.output, HasSubstr("/bin/job"));
  EXPECT_THAT(outcome.output, HasSubstr("1024MiB"));
}

// Every line of the table has the same width, whatever it holds.
TEST_F(Smi, TableLinesAreEquallyWide) {
  Start(
      "gpus: [{profile: H100-80, name: NVIDIA with a name that is much longer than its column}, "
      "{profile: T4}, {profile: A30, mig: {enabled: true}}, {profile: L4}]");
  Change([](auto& state) {
    simulation::LoseGpu(state, 3);
    simulation::AddProcess(state.gpus[0], 4194304, std::string(60, 'x'), 80ull << 30, true);
  });
  const auto outcome = Run_({});
  std::size_t start = outcome.output.find('\n') + 1;
  while (start < outcome.output.size()) {
    const auto end = outcome.output.find('\n', start);
    const auto line = outcome.output.substr(start, end - start);
    EXPECT_TRUE(line.empty() || line.size() == 91u) << line;
    start = end + 1;
  }
}

TEST_F(Smi, ListsGpusAndMigDevices) {
  Start("gpus: [{profile: T4}, {profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 2}}}]");
  const auto outcome = Run_({"-L"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output,
              ::testing::MatchesRegex("GPU 0: Tesla T4 \\(UUID: GPU-[0-9a-f-]+\\)\n"
                                      "GPU 1: NVIDIA A100-SXM4-40GB \\(UUID: GPU-[0-9a-f-]+\\)\n"
                                      "  MIG 1g.5gb      Device  0: \\(UUID: MIG-[0-9a-f-]+\\)\n"
                                      "  MIG 1g.5gb      Device  1: \\(UUID: MIG-[0-9a-f-]+\\)\n"));
}

TEST_F(Smi, QueriesFields) {
  Start("gpus: [{profile: L40S}, {profile: T4}]");
  EXPECT_EQ(Run_({"--query-gpu=index,name,memory.total,mig.mode.current", "--format=csv"}).output,
            "index, name, memory.total [MiB], mig.mode.current\n"
            "0, NVIDIA L40S, 46068 MiB, [N/A]\n"
            "1, Tesla T4, 15360 MiB, [N/A]\n");
  EXPECT_EQ(
      Run_({"--query-gpu=memory.total,compute_cap", "--format=csv,noheader,nounits", "-i", "1"})
          .output,
      "15360, 7.5\n");
}

// By index, UUID or PCI address in every spelling, in the order asked for.
TEST_F(Smi, GpusAreChosenByWhatTheyAreCalled) {
  Start("gpus: [{profile: L40S}, {profile: T4}]");
  const auto ask = [&](const std::string& gpus, const std::string& field) {
    return Run_({"-i", gpus, "--query-gpu=" + field, "--format=csv,noheader"}).output;
  };
  std::string address = ask("1", "pci.bus_id");
  address.pop_back();
  ASSERT_EQ(address.size(), std::string("00000000:3B:00.0").size()) << address;
  EXPECT_EQ(ask(address, "index"), "1\n");
  EXPECT_EQ(ask(address.substr(4), "index"), "1\n") << "as sysfs has it";
  EXPECT_EQ(ask(" 1 , 0", "index"), "1\n0\n");
  EXPECT_EQ(Run_({"-i", "00000000:FE:00.0", "-L"}).status, 6);
  EXPECT_EQ(Run_({"-i", "0,GPU-x", "-L"}).status, 6);
}

TEST_F(Smi, DetailsOfEveryGpu) {
  Start("gpus: [{profile: T4}]");
  const auto outcome = Run_({"-q"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("Attached GPUs"));
  EXPECT_THAT(outcome.output, HasSubstr("Product Name"));
  EXPECT_THAT(outcome.output, HasSubstr("Turing"));
}

// Readings move: their digits do not count.
std::string WithoutDigits(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return std::isdigit(letter) != 0; }, '#');
  return text;
}

std::vector<std::string> LinesOf(const std::string& text) { return base::Split(text, '\n'); }

// What nvidia-smi of driver 580.159.04 printed on machines with one GPU, and what this one prints
// for the same: tests/data/read, a folder for each board, with the description of the same.
class SmiOfReadBoards : public Smi {
 protected:
  static constexpr std::string_view kOwnKeys[] = {"Compute Capability", "Uncorrectable, volatile",
                                                  "Timestamp", "Serial Number", "GPU UUID"};

  void CompareTable(const std::filesystem::path& board) {
    const auto table = base::ReadFile(board / "table.txt");
    ASSERT_TRUE(table);
    const std::string output = Run_({}).output;
    const auto behind_time = [](const std::string& text) { return text.substr(text.find('\n')); };
    EXPECT_EQ(output.find('\n'), table->find('\n'));
    EXPECT_EQ(WithoutDigits(behind_time(output)), WithoutDigits(behind_time(*table)));
  }

  // Lines that nvidia-smi -q has, too; it has many more.
  void CompareDetails(const std::filesystem::path& board) {
    const auto real = base::ReadFile(board / "query.txt");
    ASSERT_TRUE(real);
    std::set<std::string> known;
    for (const auto& line : LinesOf(*real)) known.insert(WithoutDigits(line));
    for (const auto& line : LinesOf(Run_({"-q"}).output)) {
      const bool own = std::ranges::any_of(
          kOwnKeys, [&](std::string_view key) { return line.find(key) != std::string::npos; });
      EXPECT_TRUE(own || known.contains(WithoutDigits(line))) << line;
    }
  }
};

TEST_F(SmiOfReadBoards, PrintsWhatNvidiasProgramDoes) {
  std::size_t boards = 0;
  for (const auto& board : std::filesystem::directory_iterator(test_support::TestData() / "read")) {
    SCOPED_TRACE(board.path().filename().string());
    const auto description = base::ReadFile(board.path() / "description.yaml");
    ASSERT_TRUE(description);
    Start(*description);
    Change([](auto& state) { state.gpus[0].persistence_mode = 1; });
    CompareTable(board.path());
    CompareDetails(board.path());
    ++boards;
  }
  EXPECT_GT(boards, 0u);
}

TEST_F(Smi, DetailsOfAProcess) {
  Start("gpus: [{profile: H200}]");
  EXPECT_THAT(Run_({"-q"}).output,
              HasSubstr("    Processes                                          : None\n"));
  Change(
      [](auto& state) { simulation::AddProcess(state.gpus[0], 77, "/bin/job", 1 << 30, false); });
  EXPECT_THAT(Run_({"-q"}).output,
              HasSubstr("        Process ID                        : 77\n"
                        "            Type                          : C\n"
                        "            Name                          : /bin/job\n"
                        "            Used GPU Memory               : 1024 MiB\n"));
}

// What upstream's MPS control daemon calls (device-plugin.md section 17.1).
TEST_F(Smi, SetsTheComputeMode) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const auto modes = [&] {
    return Run_({"--query-gpu=compute_mode", "--format=csv,noheader"}).output;
  };
  const auto list = Run_({"-i", "1", "--query-gpu=uuid", "--format=csv,noheader"}).output;
  const auto uuid = list.substr(0, list.find('\n'));
  const auto set = Run_({"-i", uuid, "-c", "EXCLUSIVE_PROCESS"});
  EXPECT_EQ(set.status, 0) << set.output;
  EXPECT_THAT(set.output, HasSubstr("Set compute mode to EXCLUSIVE_PROCESS"));
  EXPECT_EQ(modes(), "Default\nExclusive_Process\n");
  EXPECT_EQ(Run_({"-c", "0"}).status, 0);
  EXPECT_EQ(modes(), "Default\nDefault\n");
  EXPECT_EQ(Run_({"-c", "SHARED"}).status, 2);
}

TEST_F(Smi, VersionNeedsTheDriver) {
  Start("gpus: [{profile: T4}]");
  EXPECT_THAT(Run_({"--version"}).output, HasSubstr("580.95.05"));
}

TEST_F(Smi, ExitCodes) {
  EXPECT_EQ(Run_({"--nonsense"}).status, 2);
  Start("gpus: [{profile: T4}]");
  EXPECT_EQ(Run_({"--query-gpu=nonsense"}).status, 2);
  EXPECT_EQ(Run_({"--query-gpu=name", "--format=xml"}).status, 2);
  EXPECT_EQ(Run_({"-i", "5"}).status, 6);
  Change([](auto& state) { simulation::LoseGpu(state, 0); });
  EXPECT_EQ(Run_({"-L"}).status, 15);
  Change([](auto& state) { state.driver_loaded = 0; });
  const auto unloaded = Run_({});
  EXPECT_EQ(unloaded.status, 9);
  EXPECT_THAT(unloaded.output, HasSubstr("couldn't communicate with the NVIDIA driver"));
}

TEST_F(Smi, NoGpuIsSaid) {
  Start("gpus: [{profile: T4}]");
  std::filesystem::remove(node_->folder() / "dev/nvidia0");
  const auto outcome = Run_({});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("No devices were found"));
}

}  // namespace
}  // namespace pitcrew::node::smi

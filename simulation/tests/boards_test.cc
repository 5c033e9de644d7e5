// What the simulated boards report through the library, against what real ones were seen to report:
// tests/data/boards.yaml and mig_profiles.yaml, which name their sources (real-gpus.md).
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "gpu/mig_profile.h"
#include "simulation/description/profiles.h"
#include "simulation/tests/support_nvml_library.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

const std::string kData = test_support::TestData();

class Boards : public NvmlLibrary {
 protected:
  // One GPU of the model; every reading that fails is a failure of the test.
  void StartModel(const std::string& model, const std::string& more = "") {
    Start("gpus: [{profile: " + model + more + "}]");
    gpu_ = Gpu(0);
  }
  template <class T>
  T Read(const char* name) {
    T value{};
    EXPECT_EQ(Call(name, gpu_, &value), kSuccess) << name;
    return value;
  }
  unsigned Threshold(unsigned which) {
    unsigned celsius = 0;
    EXPECT_EQ(Call("nvmlDeviceGetTemperatureThreshold", gpu_, which, &celsius), kSuccess) << which;
    return celsius;
  }
  unsigned MaxClock(unsigned type) {
    unsigned mhz = 0;
    EXPECT_EQ(Call("nvmlDeviceGetMaxClockInfo", gpu_, type, &mhz), kSuccess);
    return mhz;
  }
  std::string Text(const char* name) {
    char text[96] = {};
    EXPECT_EQ(Call(name, gpu_, text, 96u), kSuccess) << name;
    return text;
  }
  MemoryV2 MemoryNow() {
    MemoryV2 memory{};
    memory.version = sizeof(MemoryV2) | 2u << 24;
    EXPECT_EQ(Call("nvmlDeviceGetMemoryInfo_v2", gpu_, &memory), kSuccess);
    return memory;
  }

  Device gpu_ = nullptr;
};

TEST_F(Boards, ReportWhatRealOnesReport) {
  RecordProperty("holds", "real-gpus.md #8, #9, #12");
  PciInfo pci{};
  const auto nvlink = [&] {
    unsigned version = 0;
    EXPECT_EQ(Call("nvmlDeviceGetNvLinkVersion", gpu_, 0u, &version), kSuccess);
    return version;
  };
  const auto capability = [&] {
    int major = 0;
    int minor = 0;
    EXPECT_EQ(Call("nvmlDeviceGetCudaComputeCapability", gpu_, &major, &minor), kSuccess);
    return static_cast<unsigned>(100 * major + minor);
  };
  const std::map<std::string, std::function<std::uint64_t()>> numbers = {
      {"brand", [&] { return Read<unsigned>("nvmlDeviceGetBrand"); }},
      {"device", [&] { return pci.pci_device_id; }},
      {"subsystem", [&] { return pci.pci_subsystem_id; }},
      {"module", [&] { return Read<unsigned>("nvmlDeviceGetModuleId"); }},
      {"total_mib", [&] { return MemoryNow().total >> 20; }},
      {"reserved_mib", [&] { return MemoryNow().reserved >> 20; }},
      {"bar1_mib", [&] { return Read<Bar1Memory>("nvmlDeviceGetBAR1MemoryInfo").total >> 20; }},
      {"power_limit", [&] { return Read<unsigned>("nvmlDeviceGetPowerManagementLimit"); }},
      {"shutdown", [&] { return Threshold(0); }},
      {"slowdown", [&] { return Threshold(1); }},
      {"max_operating", [&] { return Threshold(3); }},
      {"sm_clock", [&] { return MaxClock(kClockSm); }},
      {"memory_clock", [&] { return MaxClock(kClockMemory); }},
      {"banks", [&] { return node_->file().Snapshot()->gpus[0].remap_banks; }},
      {"fan", [&] { return Read<unsigned>("nvmlDeviceGetFanSpeed"); }},
      {"nvlink", nvlink},
      {"capability", capability}};
  const std::map<std::string, const char*> texts = {{"name", "nvmlDeviceGetName"},
                                                    {"vbios", "nvmlDeviceGetVbiosVersion"}};
  std::set<std::string> names;
  for (const auto& board : YAML::LoadFile(kData + "/boards.yaml")) {
    const auto model = board.first.as<std::string>();
    names.insert(model);
    StartModel(model);
    EXPECT_EQ(Call("nvmlDeviceGetPciInfo_v3", gpu_, &pci), kSuccess);
    for (const auto& fact : board.second) {
      const auto key = fact.first.as<std::string>();
      const auto text = fact.second.as<std::string>();
      SCOPED_TRACE(model + " " + key);
      if (texts.contains(key)) {
        EXPECT_EQ(Text(texts.at(key)), text);
      } else {
        EXPECT_EQ(numbers.at(key)(), std::stoull(text, nullptr, 0));
      }
    }
    EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  }
  for (const auto& name : ProfileNames({})) EXPECT_TRUE(names.contains(name)) << name;
}

// An idle GPU uses nothing; what the driver keeps is told apart.
TEST_F(Boards, AnIdleGpuUsesNoMemory) {
  RecordProperty("holds", "real-gpus.md #13");
  StartModel("H100-80");
  const MemoryV2 memory = MemoryNow();
  EXPECT_EQ(memory.used, 0u);
  EXPECT_EQ(memory.total, memory.reserved + memory.used + memory.free);
}

TEST_F(Boards, ABoardRegistersWithItsFabric) {
  RecordProperty("holds", "real-gpus.md #14");
  StartModel("H100-80");
  GpuFabricInfo info{};
  ASSERT_EQ(Call("nvmlDeviceGetGpuFabricInfo", gpu_, &info), kSuccess);
  EXPECT_EQ(info.state, 3);
  EXPECT_EQ(info.clique_id, 0u);
  EXPECT_THAT(info.cluster_uuid, ::testing::Each(0));
}

// A row of a listing; nullopt is "-".
struct Row {
  std::string name;
  std::array<std::optional<std::uint64_t>, 10> cells;
};
enum Cell { kId, kCount, kMib, kP2p, kSm, kCopy, kDecoders, kEncoders, kJpeg, kOfa };

Row ParseRow(const std::string& text) {
  std::istringstream words(text);
  Row row;
  words >> row.name;
  std::string word;
  for (auto& cell : row.cells) {
    words >> word;
    if (word != "-") cell = std::stoull(word);
  }
  EXPECT_FALSE(words.fail()) << text;
  return row;
}

class MigListings : public Boards {
 protected:
  // What the library lists, by name.
  std::map<std::string, GpuInstanceProfileInfoV2> Listed() {
    std::map<std::string, GpuInstanceProfileInfoV2> listed;
    for (unsigned index = 0; index < gpu::kGpuInstanceProfileCount; ++index) {
      GpuInstanceProfileInfoV2 info{};
      info.version = kGpuInstanceProfileInfoV2;
      const auto result = Call("nvmlDeviceGetGpuInstanceProfileInfoV", gpu_, index, &info);
      EXPECT_TRUE(result == kSuccess || result == kNotSupported) << index;
      if (result != kSuccess) continue;
      EXPECT_TRUE(std::string(info.name).starts_with("MIG ")) << info.name;
      EXPECT_TRUE(listed.emplace(std::string(info.name).substr(4), info).second) << info.name;
    }
    return listed;
  }
};

TEST_F(MigListings, AreThoseOfRealBoards) {
  RecordProperty("holds", "real-gpus.md #1 to #6");
  const YAML::Node boards = YAML::LoadFile(kData + "/mig_profiles.yaml");
  for (const auto& board : boards) {
    SCOPED_TRACE(board.first.as<std::string>() + ", " + board.second["source"].as<std::string>());
    StartModel(board.first.as<std::string>());
    auto listed = Listed();
    EXPECT_EQ(listed.size(), board.second["rows"].size());
    for (const auto& line : board.second["rows"]) {
      const Row row = ParseRow(line.as<std::string>());
      SCOPED_TRACE(row.name);
      ASSERT_TRUE(listed.contains(row.name));
      const auto& info = listed.at(row.name);
      const std::array<std::uint64_t, 10> cells = {info.id,
                                                   info.instance_count,
                                                   info.memory_size_mb,
                                                   info.is_p2p_supported,
                                                   info.multiprocessor_count,
                                                   info.copy_engine_count,
                                                   info.decoder_count,
                                                   info.encoder_count,
                                                   info.jpeg_count,
                                                   info.ofa_count};
      for (std::size_t i = 0; i < cells.size(); ++i) {
        EXPECT_EQ(cells[i], row.cells[i].value_or(cells[i])) << "column " << i;
      }
    }
    EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  }
}

// Hopper and Blackwell list no compute instance of four slices in one of seven.
TEST_F(MigListings, FourOfSevenSlicesOnlyOnAmpere) {
  RecordProperty("holds", "real-gpus.md #7");
  for (const auto& [model, expected] : std::map<std::string, Return>{{"A100-40", kSuccess},
                                                                     {"H100-80", kNotSupported},
                                                                     {"H200", kNotSupported},
                                                                     {"B200", kNotSupported}}) {
    SCOPED_TRACE(model);
    StartModel(model, ", mig: {enabled: true}");
    GpuInstance instance = nullptr;
    ASSERT_EQ(Call("nvmlDeviceCreateGpuInstance", gpu_, 0u, &instance), kSuccess);
    ComputeInstanceProfileInfo info{};
    EXPECT_EQ(Call("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, 3u, 0u, &info),
              expected);
    EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  }
}

// A public `nvidia-smi mig -lcip` of an A100: 14, 28 and 42 multiprocessors in 3g.40gb.
TEST_F(MigListings, ComputeInstancesHaveTheMultiprocessorsOfTheirSlices) {
  StartModel("A100-80", ", mig: {enabled: true}");
  GpuInstance instance = nullptr;
  ASSERT_EQ(Call("nvmlDeviceCreateGpuInstance", gpu_, 9u, &instance), kSuccess);
  for (const auto& [index, expected] : std::map<unsigned, unsigned>{{0, 14}, {1, 28}, {2, 42}}) {
    ComputeInstanceProfileInfo info{};
    ASSERT_EQ(Call("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, index, 0u, &info),
              kSuccess);
    EXPECT_EQ(info.multiprocessor_count, expected);
  }
}

// nvidia-smi shows 16383 MiB for 1g.10gb of an H100 and 32767 MiB for 2g.20gb of an A100-80: an
// eighth of the GPU's for each memory slice, less one.
TEST_F(MigListings, MigDevicesHaveTheirShareOfBar1) {
  RecordProperty("holds", "real-gpus.md #10");
  for (const auto& [model, profile, expected] :
       {std::tuple{"H100-80", "1g.10gb", 16383u}, std::tuple{"A100-80", "2g.20gb", 32767u}}) {
    SCOPED_TRACE(model);
    StartModel(model, std::string(", mig: {enabled: true, devices: {") + profile + ": 1}}");
    Device mig = nullptr;
    ASSERT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", gpu_, 0u, &mig), kSuccess);
    Bar1Memory memory{};
    ASSERT_EQ(Call("nvmlDeviceGetBAR1MemoryInfo", mig, &memory), kSuccess);
    EXPECT_EQ(memory.total >> 20, expected);
    EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
  }
}

}  // namespace
}  // namespace pitcrew::simulation

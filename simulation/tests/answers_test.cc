// What the library answers about readings, health, links and profiling: real-gpus.md, "Functions
// that answer on a data centre GPU on bare metal", and the fields that metrics-exporter.md sections
// 8 and 9 and the device plugin's health need. Numbers of real boards: tests/data/boards.yaml.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include "simulation/state/incidents.h"
#include "simulation/tests/support_readings.h"

namespace pitcrew::simulation {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

class Answers : public ReadingNvml {
 protected:
  // What every function of the list answers for a GPU, or for a MIG device's handle.
  std::map<std::string, std::function<Return(Device)>> OnDevices();
  std::map<std::string, std::function<Return()>> OnSystem();
};

std::map<std::string, std::function<Return(Device)>> Answers::OnDevices() {
  // Room for whatever a function writes; the first word is the version of versioned structures.
  static unsigned long long out[8][64];
  const auto at = [](int i) { return reinterpret_cast<unsigned*>(out[i]); };
  const auto versioned = [at](unsigned version) {
    *at(0) = version;
    return static_cast<void*>(at(0));
  };
  const auto one = [this, at](const char* name) {
    return [this, at, name](Device d) { return Call(name, d, at(0)); };
  };
  const auto two = [this, at](const char* name) {
    return [this, at, name](Device d) { return Call(name, d, at(0), at(1)); };
  };
  const auto text = [this, at](const char* name, unsigned which) {
    return [this, at, name, which](Device d) {
      return Call(name, d, which, reinterpret_cast<char*>(at(0)), 16u);
    };
  };
  const auto with = [this, at](const char* name, auto... arguments) {
    return [this, at, name, arguments...](Device d) { return Call(name, d, arguments..., at(0)); };
  };
  const auto list = [this, at](const char* name, auto... arguments) {
    return [this, at, name, arguments...](Device d) {
      *at(0) = 200;
      return Call(name, d, arguments..., at(0), at(1));
    };
  };
  return {
      {"GetClock", with("nvmlDeviceGetClock", 0u, 0u)},
      {"GetCpuAffinity",
       [this](Device d) { return Call("nvmlDeviceGetCpuAffinity", d, 8u, &out[0][0]); }},
      {"GetCpuAffinityWithinScope",
       [this](Device d) {
         return Call("nvmlDeviceGetCpuAffinityWithinScope", d, 8u, &out[0][0], 1u);
       }},
      {"GetDecoderUtilization", two("nvmlDeviceGetDecoderUtilization")},
      {"GetDefaultEccMode", one("nvmlDeviceGetDefaultEccMode")},
      {"GetEncoderCapacity", with("nvmlDeviceGetEncoderCapacity", 0u)},
      {"GetEncoderStats",
       [this, at](Device d) { return Call("nvmlDeviceGetEncoderStats", d, at(0), at(1), at(2)); }},
      {"GetEncoderUtilization", two("nvmlDeviceGetEncoderUtilization")},
      {"GetFieldValues",
       [this, at](Device d) {
         at(0)[0] = field::kTotalEnergyConsumption;
         return Call("nvmlDeviceGetFieldValues", d, 1, at(0));
       }},
      {"GetGspFirmwareVersion", one("nvmlDeviceGetGspFirmwareVersion")},
      {"GetInforomConfigurationChecksum", one("nvmlDeviceGetInforomConfigurationChecksum")},
      {"GetInforomVersion", text("nvmlDeviceGetInforomVersion", 1)},
      {"GetIrqNum", one("nvmlDeviceGetIrqNum")},
      {"GetJpgUtilization", two("nvmlDeviceGetJpgUtilization")},
      {"GetMaxCustomerBoostClock", with("nvmlDeviceGetMaxCustomerBoostClock", 0u)},
      {"GetNvLinkCapability", with("nvmlDeviceGetNvLinkCapability", 0u, 0u)},
      {"GetNvLinkErrorCounter", with("nvmlDeviceGetNvLinkErrorCounter", 0u, 0u)},
      {"GetOfaUtilization", two("nvmlDeviceGetOfaUtilization")},
      {"GetP2PStatus",
       [this, at](Device d) { return Call("nvmlDeviceGetP2PStatus", d, Gpu(1), 0u, at(0)); }},
      {"GetPciInfoExt",
       [this, versioned](Device d) {
         return Call("nvmlDeviceGetPciInfoExt", d, versioned(kPciInfoExtV1));
       }},
      {"GetPcieLinkMaxSpeed", one("nvmlDeviceGetPcieLinkMaxSpeed")},
      {"GetPcieSpeed", one("nvmlDeviceGetPcieSpeed")},
      {"GetPcieThroughput", with("nvmlDeviceGetPcieThroughput", 1u)},
      {"GetRemappedRows",
       [this, at](Device d) {
         return Call("nvmlDeviceGetRemappedRows", d, at(0), at(1), at(2), at(3));
       }},
      {"GetRowRemapperHistogram", one("nvmlDeviceGetRowRemapperHistogram")},
      {"GetSamples",
       [this, at](Device d) {
         *at(1) = 10;
         return Call("nvmlDeviceGetSamples", d, 0u, 0ull, at(0), at(1), &out[2][0]);
       }},
      {"GetSupportedClocksEventReasons", one("nvmlDeviceGetSupportedClocksEventReasons")},
      {"GetSupportedGraphicsClocks", list("nvmlDeviceGetSupportedGraphicsClocks", 2619u)},
      {"GetSupportedMemoryClocks", list("nvmlDeviceGetSupportedMemoryClocks")},
      {"GetSupportedPerformanceStates",
       [this, at](Device d) {
         return Call("nvmlDeviceGetSupportedPerformanceStates", d, at(0), 64u);
       }},
      {"GetTemperatureV",
       [this, versioned](Device d) {
         out[0][0] = 0;
         return Call("nvmlDeviceGetTemperatureV", d, versioned(kTemperatureV1));
       }},
      {"GetTopologyNearestGpus", list("nvmlDeviceGetTopologyNearestGpus", 20u)},
      {"GetViolationStatus", with("nvmlDeviceGetViolationStatus", 0u)},
      {"GpmQueryDeviceSupport",
       [this, versioned](Device d) {
         return Call("nvmlGpmQueryDeviceSupport", d, versioned(kGpmVersion));
       }},
  };
}

std::map<std::string, std::function<Return()>> Answers::OnSystem() {
  static unsigned out[64];
  return {
      {"GetExcludedDeviceCount", [this] { return Call("nvmlGetExcludedDeviceCount", out); }},
      {"SystemGetConfComputeCapabilities",
       [this] { return Call("nvmlSystemGetConfComputeCapabilities", out); }},
      {"SystemGetConfComputeState", [this] { return Call("nvmlSystemGetConfComputeState", out); }},
      {"SystemGetDriverBranch",
       [this] {
         out[0] = kSystemDriverBranchInfoV1;
         return Call("nvmlSystemGetDriverBranch", out, kVersionBufferSize);
       }},
      {"SystemGetTopologyGpuSet",
       [this] {
         out[0] = 0;
         return Call("nvmlSystemGetTopologyGpuSet", 0u, out, static_cast<Device*>(nullptr));
       }},
      {"UnitGetCount", [this] { return Call("nvmlUnitGetCount", out); }}};
}

// The whole list of real-gpus.md: 34 functions of a GPU and 6 of the system.
TEST_F(Answers, EveryFunctionOfTheListAnswers) {
  RecordProperty("holds", "real-gpus.md #15, #16");
  Start("gpus: [{profile: H100-80, count: 2}]");
  EXPECT_EQ(OnDevices().size() + OnSystem().size(), 40u);
  for (const auto& [name, call] : OnDevices()) EXPECT_EQ(call(Gpu(0)), kSuccess) << name;
  for (const auto& [name, call] : OnSystem()) EXPECT_EQ(call(), kSuccess) << name;
  for (const char* name : {"nvmlUnitGetCount", "nvmlGetExcludedDeviceCount"}) {
    unsigned count = 7;
    EXPECT_EQ(Call(name, &count), kSuccess) << name;
    EXPECT_EQ(count, 0u) << name;
  }
}

TEST_F(Answers, NothingAnswersBeforeTheFirstInitialisation) {
  for (const auto& [name, call] : OnDevices()) {
    if (name == "GetP2PStatus") continue;  // would ask for its second GPU first
    EXPECT_EQ(call(nullptr), kUninitialized) << name;
  }
  for (const auto& [name, call] : OnSystem()) EXPECT_EQ(call(), kUninitialized) << name;
}

TEST_F(Answers, ALostGpuSaysSoEverywhere) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const Device gpu = Gpu(0);
  Gpu(1);
  Change_([](NodeState& node) { LoseGpu(node, 0); });
  for (const auto& [name, call] : OnDevices()) EXPECT_EQ(call(gpu), kGpuIsLost) << name;
}

// A MIG device is no GPU: what belongs to the board is not its own.
TEST_F(Answers, AMigDeviceHasOnlyWhatIsItsOwn) {
  Start("gpus: [{profile: H100-80, count: 2, mig: {enabled: true, devices: {1g.10gb: 1}}}]");
  Device mig = nullptr;
  ASSERT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", Gpu(0), 0u, &mig), kSuccess);
  for (const auto& [name, call] : OnDevices()) {
    const Return result = call(mig);
    if (name == "GetPciInfoExt") {
      EXPECT_EQ(result, kSuccess) << "a MIG device has its GPU's address";
    } else {
      EXPECT_TRUE(result == kNotSupported || result == kInvalidArgument) << name << " " << result;
    }
  }
}

// nvml.h: engines, rows and utilisation samples are not measured while MIG is on.
TEST_F(Answers, InMigModeSomeReadingsEnd) {
  Start("gpus: [{profile: H100-80, mig: {enabled: true, devices: {1g.10gb: 1}}}]");
  const auto calls = OnDevices();
  for (const char* name : {"GetDecoderUtilization", "GetEncoderUtilization", "GetJpgUtilization",
                           "GetOfaUtilization", "GetRemappedRows"}) {
    EXPECT_EQ(calls.at(name)(Gpu(0)), kNotSupported) << name;
  }
  EXPECT_EQ(FieldReturn(Gpu(0), field::kRemappedPending), kNotSupported);
  EXPECT_EQ(FieldReturn(Gpu(0), field::kTotalEnergyConsumption), kSuccess);
}

TEST_F(Answers, VersionedStructuresNeedTheirVersion) {
  Start("gpus: [{profile: H100-80}]");
  const Device gpu = Gpu(0);
  unsigned buffer[64] = {};
  const std::vector<std::pair<const char*, unsigned>> calls = {
      {"nvmlDeviceGetTemperatureV", kTemperatureV1},
      {"nvmlDeviceGetMarginTemperature", kMarginTemperatureV1},
      {"nvmlDeviceGetPciInfoExt", kPciInfoExtV1},
      {"nvmlDeviceGetSramEccErrorStatus", kEccSramErrorStatusV1},
      {"nvmlGpmQueryDeviceSupport", kGpmVersion}};
  for (const auto& [name, version] : calls) {
    std::ranges::fill(buffer, 0u);
    buffer[0] = version + 1;
    EXPECT_EQ(Call(name, gpu, buffer), kArgumentVersionMismatch) << name;
    buffer[0] = version;
    EXPECT_EQ(Call(name, gpu, buffer), kSuccess) << name;
    EXPECT_EQ(Call(name, gpu, static_cast<unsigned*>(nullptr)), kInvalidArgument) << name;
  }
}

// A public `nvidia-smi -q` of an HGX H100: 57 degrees of margin at 30, limits -8, -2, 0 and 0.
TEST_F(Answers, LimitsOfTemperatureAreMarginsOnHopper) {
  Start("gpus: [{profile: H100-80}, {profile: A40}]");
  const auto signed_field = [&](unsigned id) {
    const FieldValue value = Field(Gpu(0), id);
    EXPECT_EQ(value.value_type, kValueSignedInt);
    return value.value.as_int;
  };
  EXPECT_EQ(signed_field(field::kTemperatureShutdownTlimit), -8);
  EXPECT_EQ(signed_field(field::kTemperatureSlowdownTlimit), -2);
  EXPECT_EQ(signed_field(field::kTemperatureMemoryMaxTlimit), 0);
  EXPECT_EQ(signed_field(field::kTemperatureGpuMaxTlimit), 0);
  TemperatureV1 temperature{kTemperatureV1, 0, 0};
  MarginTemperatureV1 margin{kMarginTemperatureV1, 0};
  EXPECT_EQ(Call("nvmlDeviceGetTemperatureV", Gpu(0), &temperature), kSuccess);
  EXPECT_EQ(Call("nvmlDeviceGetMarginTemperature", Gpu(0), &margin), kSuccess);
  EXPECT_NEAR(temperature.temperature + margin.margin, 87, 1);
  // An A40 tells absolute limits only, and has no sensor in its memory.
  EXPECT_EQ(FieldReturn(Gpu(1), field::kTemperatureShutdownTlimit), kNotSupported);
  EXPECT_EQ(FieldReturn(Gpu(1), field::kMemoryTemperature), kNotSupported);
  EXPECT_EQ(Call("nvmlDeviceGetMarginTemperature", Gpu(1), &margin), kNotSupported);
  EXPECT_THAT(Number(Gpu(0), field::kMemoryTemperature), AllOf(Ge(27u), Le(95u)));
}

TEST_F(Answers, FieldsOutsideTheTableAreInvalid) {
  Start("gpus: [{profile: H100-80}]");
  EXPECT_EQ(FieldReturn(Gpu(0), 0), kInvalidArgument);
  EXPECT_EQ(FieldReturn(Gpu(0), field::kMax), kInvalidArgument);
  EXPECT_EQ(FieldReturn(Gpu(0), field::kNvLinkGetState, 99), kInvalidArgument);
  FieldValue value{};
  EXPECT_EQ(Call("nvmlDeviceGetFieldValues", Gpu(0), 0, &value), kInvalidArgument);
  EXPECT_EQ(Call("nvmlDeviceGetFieldValues", Gpu(0), 1, static_cast<FieldValue*>(nullptr)),
            kInvalidArgument);
}

// metrics-exporter.md section 8: all fields of one call, each with its own code.
TEST_F(Answers, ManyFieldsComeInOneCall) {
  Start("gpus: [{profile: T4}]");
  std::vector<FieldValue> values(3);
  values[0].field_id = field::kTotalEnergyConsumption;
  values[1].field_id = field::kRemappedFailure;  // a T4 retires pages
  values[2].field_id = field::kRetiredDbe;
  EXPECT_EQ(Call("nvmlDeviceGetFieldValues", Gpu(0), 3, values.data()), kSuccess);
  EXPECT_EQ(values[0].nvml_return, kSuccess);
  EXPECT_EQ(values[1].nvml_return, kNotSupported);
  EXPECT_EQ(values[2].nvml_return, kSuccess);
}

TEST_F(Answers, ReadingsFollowTheLoad) {
  Start("gpus: [{profile: H100-80, load: 50}]");
  const Device gpu = Gpu(0);
  const auto energy = Number(gpu, field::kTotalEnergyConsumption);
  const auto sent = Number(gpu, field::kNvLinkThroughputDataTx, kAllLinks);
  const auto received = Number(gpu, field::kPcieCountRxBytes);
  LetPass(std::chrono::seconds(10));
  // Half of what lies between 70 and 95 % of 700 W, for ten seconds and a little more.
  EXPECT_THAT(Number(gpu, field::kTotalEnergyConsumption) - energy,
              AllOf(Ge(3'000'000u), Le(5'000'000u)));
  // 18 links of 26.562 GB/s, two fifths used at full load: 956 GB in ten seconds of half.
  EXPECT_THAT(Number(gpu, field::kNvLinkThroughputDataTx, kAllLinks) - sent,
              AllOf(Ge(930'000'000u), Le(1'200'000'000u)));
  // It has 32 bits and wraps: by itself it says that something moved.
  EXPECT_NE(Number(gpu, field::kPcieCountRxBytes), received);
  EXPECT_EQ(Field(gpu, field::kPcieCountRxBytes).value_type, kValueUnsignedInt);
  unsigned throughput = 0;
  EXPECT_EQ(Call("nvmlDeviceGetPcieThroughput", gpu, 1u, &throughput), kSuccess);
  EXPECT_GT(throughput, 1'000'000u) << "KB/s";
  Change_([](NodeState& node) { node.gpus[0].load_decoder = 70; });
  unsigned utilization = 0;
  unsigned period = 0;
  EXPECT_EQ(Call("nvmlDeviceGetDecoderUtilization", gpu, &utilization, &period), kSuccess);
  EXPECT_EQ(utilization, 70u);
  EXPECT_GT(period, 0u);
}

TEST_F(Answers, SamplesAreNewerThanTheLastSeen) {
  Start("gpus: [{profile: H100-80, load: 50}]");
  unsigned type = 99;
  unsigned count = 0;
  EXPECT_EQ(
      Call("nvmlDeviceGetSamples", Gpu(0), 1u, 0ull, &type, &count, static_cast<Sample*>(nullptr)),
      kSuccess);
  ASSERT_GT(count, 0u);
  std::vector<Sample> samples(count);
  EXPECT_EQ(Call("nvmlDeviceGetSamples", Gpu(0), 1u, 0ull, &type, &count, samples.data()),
            kSuccess);
  EXPECT_EQ(type, kValueUnsignedInt);
  samples.resize(count);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_NEAR(samples[i].value.as_unsigned, 50, 4);
    if (i == 0) continue;
    EXPECT_GT(samples[i].time_stamp, samples[i - 1].time_stamp);
  }
  const auto last = samples.back().time_stamp + 3'600'000'000ull;
  EXPECT_EQ(Call("nvmlDeviceGetSamples", Gpu(0), 1u, last, &type, &count, samples.data()),
            kNotFound);
}

TEST_F(Answers, LinksHaveTheSpeedAndVersionOfTheBoard) {
  Start("gpus: [{profile: B300}, {profile: L4}]");
  EXPECT_EQ(Number(Gpu(0), field::kNvLinkGetVersion, 0), 7u);
  EXPECT_EQ(Number(Gpu(0), field::kNvLinkGetSpeed, 17), 53125u) << "public listing of a B300";
  EXPECT_EQ(Number(Gpu(0), field::kNvLinkLinkCount), 18u);
  EXPECT_EQ(FieldReturn(Gpu(1), field::kNvLinkLinkCount), kNotSupported);
  EXPECT_EQ(FieldReturn(Gpu(1), field::kNvLinkGetState, 0), kNotSupported);
}

TEST_F(Answers, PeersAndNeighbours) {
  Start(
      "cpus: 96\ngpus: [{profile: H100-80, count: 2}, {profile: L4, numa: 1}, {profile: L4, numa: "
      "1, pcie_switch: 2}, {profile: L4, numa: 1, pcie_switch: 2}]");
  const auto status = [&](unsigned a, unsigned b, unsigned capability) {
    unsigned answer = 99;
    EXPECT_EQ(Call("nvmlDeviceGetP2PStatus", Gpu(a), Gpu(b), capability, &answer), kSuccess);
    return answer;
  };
  EXPECT_EQ(status(0, 1, 2), 0u) << "NVLink through the switch";
  EXPECT_EQ(status(0, 2, 2), 5u) << "no NVLink to an L4";
  EXPECT_EQ(status(0, 2, 0), 0u) << "reads over PCIe";
  unsigned count = 0;
  EXPECT_EQ(
      Call("nvmlDeviceGetTopologyNearestGpus", Gpu(3), 10u, &count, static_cast<Device*>(nullptr)),
      kSuccess);
  ASSERT_EQ(count, 1u);
  Device nearest = nullptr;
  EXPECT_EQ(Call("nvmlDeviceGetTopologyNearestGpus", Gpu(3), 10u, &count, &nearest), kSuccess);
  EXPECT_EQ(nearest, Gpu(4));
  // NUMA node 0 has the first half of the CPUs, node 1 the second.
  unsigned long cpus[2] = {};
  EXPECT_EQ(Call("nvmlDeviceGetCpuAffinity", Gpu(2), 2u, cpus), kSuccess);
  EXPECT_EQ(cpus[0], 0xffff000000000000ul);
  EXPECT_EQ(cpus[1], 0xfffffffful);
  count = 0;
  EXPECT_EQ(Call("nvmlSystemGetTopologyGpuSet", 95u, &count, static_cast<Device*>(nullptr)),
            kSuccess);
  EXPECT_EQ(count, 3u);
}

TEST_F(Answers, SupportedClocksFallInSteps) {
  Start("gpus: [{profile: A100-40}]");
  unsigned count = 0;
  EXPECT_EQ(
      Call("nvmlDeviceGetSupportedMemoryClocks", Gpu(0), &count, static_cast<unsigned*>(nullptr)),
      kInsufficientSize);
  ASSERT_EQ(count, 1u);
  unsigned memory = 0;
  EXPECT_EQ(Call("nvmlDeviceGetSupportedMemoryClocks", Gpu(0), &count, &memory), kSuccess);
  EXPECT_EQ(memory, 1215u);
  std::vector<unsigned> clocks(200);
  count = 200;
  EXPECT_EQ(Call("nvmlDeviceGetSupportedGraphicsClocks", Gpu(0), memory, &count, clocks.data()),
            kSuccess);
  clocks.resize(count);
  EXPECT_EQ(clocks.front(), 1410u);
  EXPECT_EQ(clocks[1], 1395u);
  EXPECT_EQ(clocks.back(), 210u);
  EXPECT_EQ(Call("nvmlDeviceGetSupportedGraphicsClocks", Gpu(0), 77u, &count, clocks.data()),
            kNotFound);
}

TEST_F(Answers, ProcessesOfTheNodeHaveNames) {
  RecordProperty("holds", "real-gpus.md #11");
  Start("gpus: [{profile: T4}]");
  char name[256] = {};
  EXPECT_EQ(Call("nvmlSystemGetProcessName", static_cast<unsigned>(::getpid()), name, 256u),
            kSuccess);
  EXPECT_NE(std::string(name).find("simulation_unit_test"), std::string::npos) << name;
  EXPECT_EQ(Call("nvmlSystemGetProcessName", 0x7fffffffu, name, 256u), kNotFound);
}

}  // namespace
}  // namespace pitcrew::simulation

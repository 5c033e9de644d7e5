// The whole exporter on simulated GPUs: over HTTP, with the kubelet's side over real gRPC.
#include "node/metrics_exporter/exporter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <regex>
#include <thread>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "base/strings.h"
#include "io/http_client.h"
#include "node/metrics_exporter/collector.h"
#include "nvml/guarded.h"
#include "rpc/testing/fake_pod_resources.h"
#include "support_exporter.h"
#include "tests/support/folders.h"
#include "tests/support/patience.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using namespace std::chrono_literals;
using rpc::testing::FakePodResources;
using test_support::SimulatedNode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Lines that begin with this.
std::vector<std::string> LinesOf(const std::string& page, std::string_view beginning) {
  std::vector<std::string> lines;
  for (auto& line : base::Split(page, '\n')) {
    if (line.starts_with(beginning)) lines.push_back(std::move(line));
  }
  return lines;
}

TEST_F(ExporterTest, AScrapeHasEveryGpu) {
  RecordProperty("holds", "metrics-exporter.md #24, #25, #30");
  options_.kubernetes = true;  // without a socket: nothing is added
  Start("gpus: [{profile: H100-80, count: 2}]");
  const auto page = Metrics();
  const auto lines = LinesOf(page, "DCGM_FI_DEV_GPU_TEMP{");
  ASSERT_EQ(lines.size(), 2U) << page;
  EXPECT_TRUE(std::regex_match(
      lines[1],
      std::regex("DCGM_FI_DEV_GPU_TEMP\\{gpu=\"1\",UUID=\"GPU-[0-9a-f-]{36}\",pci_bus_id="
                 "\"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\\.0\",device=\"nvidia1\",modelName="
                 "\"NVIDIA H100 80GB HBM3\",hostname=\"node-a\",DCGM_FI_DRIVER_VERSION="
                 "\"580\\.95\\.05\"\\} [0-9]+")))
      << lines[1];
  EXPECT_THAT(page, HasSubstr("# DCGM_FI_DEV_XID_ERRORS has no value: there was no XID"));
  const auto health = Get("/health");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.body, "OK");
  EXPECT_EQ(health.header("x-registry-available"), "true");
  EXPECT_EQ(health.header("x-content-type-options"), "nosniff");
}

TEST_F(ExporterTest, ProfilersPathsAreNotThere) {
  Start("gpus: [{profile: T4}]");
  EXPECT_EQ(Get("/debug/pprof/").status, 404);
  EXPECT_EQ(Get("/other").status, 404);
  EXPECT_THAT(Get("/").body, AllOf(HasSubstr("./metrics"), HasSubstr("./health")));
}

TEST_F(ExporterTest, InstancesHaveTheirMemoryAndTheirPods) {
  options_.kubernetes = true;
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 2}}}, {profile: T4}]");
  const auto kubelet = FakePodResources::Start(node_->kubelet_socket());
  ASSERT_TRUE(kubelet);
  auto lines = LinesOf(Metrics(), "DCGM_FI_DEV_FB_USED{");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0],
              AllOf(HasSubstr("GPU_I_PROFILE=\"1g.5gb\",GPU_I_ID="), Not(HasSubstr("pod="))));
  const std::smatch uuid = [&] {
    static std::string line = lines[2];
    std::smatch match;
    std::regex_search(line, match, std::regex("UUID=\"(GPU-[^\"]+)\""));
    return match;
  }();
  kubelet->Set({{"ml", "train", {{"nvidia.com/gpu", {uuid[1]}, "main"}}}});
  lines = LinesOf(Metrics(), "DCGM_FI_DEV_FB_USED{");
  EXPECT_THAT(lines[2], HasSubstr("container=\"main\",namespace=\"ml\",pod=\"train\"} "));
  EXPECT_THAT(lines[0], Not(HasSubstr("pod=")));
  kubelet->Set({});
  EXPECT_THAT(Metrics(), Not(HasSubstr("pod=\"train\"")));
}

codec::Json SliceOf(std::string_view node, std::string_view uuid) {
  const codec::Json device = {
      {"name", "gpu-0"},
      {"attributes", {{"type", {{"string", "gpu"}}}, {"uuid", {{"string", uuid}}}}}};
  const codec::Json pool = {{"name", node}, {"generation", 1}, {"resourceSliceCount", 1}};
  codec::Json slice = {{"metadata", {{"name", node}}}};
  slice["spec"] = {{"driver", "gpu.nvidia.com"}, {"nodeName", node}, {"pool", pool}};
  slice["spec"]["devices"].push_back(device);
  return slice;
}

TEST_F(ExporterTest, ClaimsMeanWhatTheSlicesOfTheNodeSay) {
  RecordProperty("holds", "metrics-exporter.md #42");
  const kube::ResourceKind slices{"resource.k8s.io", "v1", "resourceslices", "ResourceSlice",
                                  false};
  const auto client = ::pitcrew::testing::ApiServer::Shared().MakeClient();
  constexpr const char* kUuid = "GPU-00000000-0000-4000-8000-000000000042";
  const auto elsewhere = client->Create(slices, SliceOf("elsewhere", kUuid));
  ASSERT_TRUE(elsewhere) << elsewhere.error().message;
  options_.kubernetes = options_.claims = true;
  options_.node_name = "node-a";
  options_.kubeconfig = ::pitcrew::testing::ApiServer::Shared().kubeconfig().string();
  Start(fmt::format("gpus: [{{profile: T4, uuid: {}}}]", kUuid));
  const auto kubelet = FakePodResources::Start(node_->kubelet_socket());
  const auto claim = [](const char* name, const char* pool) {
    return rpc::ClaimedDevice{"main", "ml", name, "gpu.nvidia.com", pool, "gpu-0"};
  };
  kubelet->Set({{"ml", "away", {}, {claim("other", "elsewhere")}},
                {"ml", "train", {}, {claim("whole", "node-a")}}});
  EXPECT_THAT(Metrics(), Not(HasSubstr("pod=\"train\""))) << "there is no slice of this node yet";
  ASSERT_TRUE(client->Create(slices, SliceOf("node-a", kUuid)));
  const auto page = AwaitPage(HasSubstr("dra_claim_name=\"whole\",dra_claim_namespace=\"ml\""));
  EXPECT_THAT(page, HasSubstr("namespace=\"ml\",pod=\"train\"} "));
  EXPECT_THAT(page, Not(HasSubstr("pod=\"away\""))) << "slices of other nodes are not read";
}

TEST_F(ExporterTest, AKubeletThatGoesAwayTakesNoPodsWithIt) {
  options_.kubernetes = true;
  Start("gpus: [{profile: T4, uuid: GPU-00000000-0000-4000-8000-000000000001}]");
  auto kubelet = FakePodResources::Start(node_->kubelet_socket());
  const auto held = [](const char* pod) {
    return std::vector<rpc::PodDevices>{
        {"ml", pod, {{"nvidia.com/gpu", {"GPU-00000000-0000-4000-8000-000000000001"}, "main"}}}};
  };
  kubelet->Set(held("first"));
  EXPECT_THAT(Metrics(), HasSubstr("pod=\"first\""));
  kubelet.reset();
  EXPECT_THAT(Metrics(), HasSubstr("pod=\"first\"")) << "unknown is not absent";
  kubelet = FakePodResources::Start(node_->kubelet_socket());
  kubelet->Set(held("second"));
  EXPECT_THAT(AwaitPage(HasSubstr("pod=\"second\"")), Not(HasSubstr("pod=\"first\"")));
}

TEST_F(ExporterTest, ALostGpuCostsItsOwnSeriesOnly) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  node_->Gpu({"lose", "1"});
  const auto page = AwaitPage(HasSubstr("pitcrew_metrics_exporter_gpu_readable{gpu=\"1\""));
  const auto gone = AwaitPage(Not(HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\"")));
  EXPECT_THAT(gone, HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\""));
  node_->Gpu({"restore", "1"});
  AwaitPage(HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\""));
}

TEST_F(ExporterTest, AHangingGpuHoldsNoScrapeUp) {
  options_.nvml_limit = 300ms;
  Start("gpus: [{profile: H100-80, count: 2}]");
  node_->Gpu({"hang", "1"});
  // On a busy machine a round may find the other one too slow as well.
  AwaitPage(AllOf(Not(HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\"")),
                  HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\""),
                  HasSubstr("reason=\"NvmlHangs\"} 0")));
  node_->Gpu({"restore", "1"});
  AwaitPage(HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\""));
}

double RoundAge(const std::string& page) {
  const auto lines = LinesOf(page, "pitcrew_metrics_exporter_round_age_seconds ");
  return lines.size() == 1 ? std::stod(lines[0].substr(lines[0].rfind(' '))) : -1;
}

TEST_F(ExporterTest, ADriverThatHangsLeavesTheLastRoundWithItsAge) {
  options_.nvml_limit = 2s;  // a busy machine does not count as a hang
  Start("gpus: [{profile: H100-80, count: 2}]");
  node_->Gpu({"driver", "hang"});
  const auto page = AwaitPage(::testing::ResultOf(RoundAge, ::testing::Gt(3.0)));
  EXPECT_EQ(LinesOf(page, "DCGM_FI_DEV_GPU_TEMP{").size(), 2U) << page;
  EXPECT_EQ(LinesOf(page, "pitcrew_metrics_exporter_gpu_readable{").size(), 2U);
  EXPECT_EQ(Get("/health").status, 200);
  // What is seen afterwards is of afterwards.
  node_->Gpu({"lose", "1"});
  node_->Gpu({"driver", "restore"});
  const auto after = AwaitPage(Not(HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\"")));
  EXPECT_LT(RoundAge(after), RoundAge(page));
}

TEST_F(ExporterTest, ADriverThatHangsDoesNotHoldTheEndUp) {
  options_.nvml_limit = 300ms;
  Start("gpus: [{profile: T4}]");
  node_->Gpu({"driver", "hang"});
  AwaitPage(::testing::ResultOf(RoundAge, ::testing::Gt(1.0)));
  Stop();
  node_->Gpu({"driver", "restore"});
  while (nvml::HasHangingCalls()) std::this_thread::yield();
}

TEST_F(ExporterTest, WhereAGpuIsAndWhatItsPortsCount) {
  Write(
      "DCGM_FI_DEV_CPU_AFFINITY_0, gauge, x\nDCGM_FI_DEV_MEM_AFFINITY_0, gauge, x\n"
      "DCGM_FI_DEV_VIRTUAL_MODE, gauge, x\nDCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG, gauge, x\n"
      "DCGM_FI_DEV_FABRIC_HEALTH_MASK, gauge, x\nDCGM_FI_DEV_FABRIC_HEALTH_SUMMARY, gauge, x\n"
      "DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER, label, x\n"
      "DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER, gauge, x\nDCGM_FI_DEV_AUTOBOOST, gauge, x\n"
      "DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER, counter, x\n"
      "DCGM_EXP_GPU_HEALTH_STATUS, gauge, x\n");
  Start(
      "cpus: 8\ngpus: [{profile: GB200, fabric: {cluster: 00000000-0000-0000-0000-0000000000aa, "
      "clique: 0}},"
      " {profile: T4}]");
  const auto page = Metrics();
  const auto value = [&](const std::string& counter, const char* gpu) {
    const auto lines = LinesOf(page, fmt::format("{}{{gpu=\"{}\"", counter, gpu));
    return lines.size() == 1 ? lines[0].substr(lines[0].rfind(' ') + 1) : "";
  };
  EXPECT_EQ(value("DCGM_FI_DEV_CPU_AFFINITY_0", "0"), "15");
  EXPECT_EQ(value("DCGM_FI_DEV_CPU_AFFINITY_0", "1"), "240");
  EXPECT_EQ(value("DCGM_FI_DEV_MEM_AFFINITY_0", "1"), "2");
  EXPECT_EQ(value("DCGM_FI_DEV_VIRTUAL_MODE", "0"), "0");
  EXPECT_EQ(value("DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", "0"), "0");
  EXPECT_EQ(value("DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", "1"), "") << "Turing does not tell";
  EXPECT_EQ(value("DCGM_FI_DEV_FABRIC_HEALTH_MASK", "0"), "426");
  EXPECT_EQ(value("DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY", "0"), "1");
  EXPECT_EQ(value("DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER", "0"), "1");
  EXPECT_THAT(page, ::testing::ContainsRegex("CHASSIS_SERIAL_NUMBER=\"[0-9]{13}\""));
  EXPECT_THAT(page, HasSubstr("# DCGM_FI_DEV_AUTOBOOST has no value: not supported by these GPUs"));
  const auto ports = LinesOf(page, "DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER{");
  EXPECT_EQ(ports.size(), 18U) << "one for each link that is up";
  node_->Gpu({"fabric", "0", "unhealthy"});
  AwaitPage(
      HasSubstr("health_error_code=\"DCGM_FR_FIELD_VIOLATION\",health_watch=\"NVLINK\"} 20\n"));
  node_->Gpu({"fabric", "0", "healthy"});
  node_->Gpu({"rows", "0", "--failure"});
  AwaitPage(AllOf(Not(HasSubstr("DCGM_FR_FIELD_VIOLATION")),
                  ::testing::ContainsRegex("MEMORY_UNREPAIRABLE_FLAG\\{gpu=\"0\"[^\n]*\\} 1\n")));
}

TEST_F(ExporterTest, AnXidIsSeen) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  node_->Gpu({"xid", "1", "31"});
  const auto page = AwaitPage(HasSubstr("DCGM_FI_DEV_XID_ERRORS{gpu=\"1\""));
  EXPECT_THAT(page, HasSubstr("err_code=\"31\",err_msg=\"GPU memory page fault\"} 31\n"));
  EXPECT_THAT(page, Not(HasSubstr("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"")));
}

// A lost GPU brings XIDs of others with it, and leaves the list in that moment.
TEST(XidListener, HearsAGpuWhileAnotherGoesAndComesBack) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 2}]");
  node.InstallDriver();
  const auto library = nvml::OpenGuarded({node.driver_root()}, {.limit = 60s});
  ASSERT_TRUE(library) << library.error().ToString();
  std::vector<std::string> gpus;
  const auto inventory = (*library)->ReadInventory();
  for (const auto& device : inventory->devices) gpus.push_back(device.uuid);
  XidListener listener(*library);
  listener.Follow(gpus);
  std::atomic<std::size_t> raised{0};
  std::thread driver([&] {
    for (; raised < 5; ++raised) node.Gpu({"xid", "0", "31"});
  });
  while (raised < 5) {
    listener.Follow({gpus[0]});
    listener.Follow(gpus);
  }
  driver.join();
  node.Gpu({"xid", "1", "48"});  // the one that came back; XIDs come in order
  std::vector<std::uint64_t> heard;
  while (std::ranges::find(heard, 48) == heard.end()) {
    for (const auto& one : listener.Take()) heard.push_back(one.event.data);
    std::this_thread::yield();
  }
  EXPECT_EQ(std::ranges::count(heard, 31), 5);
}

TEST_F(ExporterTest, ProfilingComesWithTheSecondRound) {
  Write("DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x\nDCGM_FI_PROF_PCIE_TX_BYTES, gauge, x\n");
  Start("gpus: [{profile: H100-80, load: 80}, {profile: A100-40}]");
  const auto page = AwaitPage(HasSubstr("DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\""));
  EXPECT_THAT(page, HasSubstr("DCGM_FI_PROF_PCIE_TX_BYTES{gpu=\"0\""));
  EXPECT_THAT(page, Not(HasSubstr("ACTIVE{gpu=\"1\""))) << "Ampere has no GPM";
  EXPECT_THAT(page, Not(HasSubstr("BYTES{gpu=\"1\"")));
}

// What of the default counters a model has no value for, with why (real-gpus.md and the models'
// files): no memory sensor, no NVLinks, rows that are retired and not remapped, no GPM.
struct Model {
  std::string name;
  bool memory_sensor;
  bool links;
  bool remaps;
  bool profiling;
};
const std::vector<Model> kModels = {
    {"T4", false, false, false, false},        {"A10", false, false, true, false},
    {"A30", true, false, true, false},         {"A40", false, true, true, false},
    {"A100-40", true, true, true, false},      {"L4", false, false, true, false},
    {"L40S", false, false, true, false},       {"H100-80", true, true, true, true},
    {"H200", true, true, true, true},          {"B200", true, true, true, true},
    {"RTX-PRO-6000", false, false, true, true}};

TEST_F(ExporterTest, TheDefaultCountersOnElevenModels) {
  options_.counter_file = test_support::SourceFolder() / "deploy/counters/default-counters.csv";
  std::string gpus;
  for (const auto& model : kModels) gpus += fmt::format("{{profile: {}}}, ", model.name);
  Start(fmt::format(
      "gpus: [{}{{profile: A100-80, mig: {{enabled: true, devices: {{1g.10gb: 1}}}}}}]", gpus));
  const auto page = AwaitPage(HasSubstr("DCGM_FI_PROF_DRAM_ACTIVE{gpu=\"7\""));
  const auto counters = ParseCounters(*base::ReadFile(options_.counter_file), "default");
  for (std::size_t i = 0; i < kModels.size(); ++i) {
    const auto& model = kModels[i];
    for (const auto& counter : counters->counters) {
      if (counter.IsLabel()) continue;
      const std::string_view name = counter.name;
      const bool expected = name == "DCGM_FI_DEV_MEMORY_TEMP"          ? model.memory_sensor
                            : name.find("NVLINK") != std::string::npos ? model.links
                            : name.find("REMAP") != std::string::npos  ? model.remaps
                            : name.starts_with("DCGM_FI_PROF_")        ? model.profiling
                                                                : name != "DCGM_FI_DEV_XID_ERRORS";
      const auto lines = LinesOf(page, fmt::format("{}{{gpu=\"{}\",", name, i));
      EXPECT_EQ(lines.size(), expected ? 1U : 0U) << model.name << ": " << name;
      for (const auto& line : lines) {
        EXPECT_THAT(line, HasSubstr("DCGM_FI_DRIVER_VERSION=\"580.95.05\"} "));
        // Of an idle GPU these are never 0.
        const bool positive = name.ends_with("_TEMP") || name.ends_with("_CLOCK") ||
                              name.ends_with("POWER_USAGE") || name.ends_with("FB_FREE");
        if (positive) {
          EXPECT_THAT(line, Not(::testing::ContainsRegex("} 0(\\.0+)?$"))) << model.name;
        }
      }
    }
  }
  // The instance: what the parent answers, its own memory, nothing of rows while it exists.
  const auto mig = fmt::format("{{gpu=\"{}\",", kModels.size());
  for (const auto* name : {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_SM_CLOCK"}) {
    const auto lines = LinesOf(page, name + mig);
    ASSERT_EQ(lines.size(), 1U) << name;
    EXPECT_THAT(lines[0], HasSubstr("GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\""));
  }
  EXPECT_THAT(LinesOf(page, "DCGM_FI_DEV_ROW_REMAP_FAILURE" + mig), IsEmpty());
}

TEST_F(ExporterTest, NewCountersAreTakenFromTheFile) {
  RecordProperty("holds", "metrics-exporter.md #56");
  options_.interval = 1h;
  Start("gpus: [{profile: H100-80}]");
  EXPECT_THAT(Metrics(), Not(HasSubstr("DCGM_FI_DEV_SM_CLOCK")));
  Write("DCGM_FI_DEV_SM_CLOCK, gauge, clock\n");
  EXPECT_THAT(AwaitPage(HasSubstr("DCGM_FI_DEV_SM_CLOCK{")),
              Not(HasSubstr("DCGM_FI_DEV_GPU_TEMP")));
  // A mistake changes nothing.
  Write("DCGM_FI_DEV_SM_CLOCKK, gauge, clock\n");
  ::kill(::getpid(), SIGUSR1);
  EXPECT_THAT(Metrics(), HasSubstr("DCGM_FI_DEV_SM_CLOCK{"));
}

TEST_F(ExporterTest, ASignalReadsTheCountersAgain) {
  RecordProperty("holds", "metrics-exporter.md #55");
  options_.interval = 1h;
  Start("gpus: [{profile: H100-80}]");
  Write("DCGM_FI_DEV_MEM_CLOCK, gauge, clock\n");
  ::kill(::getpid(), SIGUSR1);
  EXPECT_THAT(AwaitPage(HasSubstr("DCGM_FI_DEV_MEM_CLOCK{")), Not(HasSubstr("GPU_TEMP")));
}

TEST_F(ExporterTest, WithoutDriverOrCountersItDoesNotStart) {
  Write("DCGM_FI_NO_SUCH, gauge, x\n");
  node_ = std::make_unique<SimulatedNode>("gpus: [{profile: T4}]");
  node_->InstallDriver();
  options_.driver_roots = {node_->driver_root()};
  Run();
  stop_->Stop();
  thread_.join();
  ASSERT_FALSE(result_);
  EXPECT_EQ(result_.error().reason, "BadCounterFile");
}

TEST_F(ExporterTest, CountersFromAConfigMap) {
  RecordProperty("holds", "metrics-exporter.md #10");
  auto client = ::pitcrew::testing::ApiServer::Shared().MakeClient();
  const codec::Json map = {{"metadata", {{"name", "counters"}, {"namespace", "default"}}},
                           {"data", {{"metrics", "DCGM_FI_DEV_SM_CLOCK, gauge, clock\n"}}}};
  ASSERT_TRUE(client->Create(kube::kConfigMaps, map));
  const codec::Json empty = {{"metadata", {{"name", "empty"}, {"namespace", "default"}}},
                             {"data", {{"other", "x"}}}};
  ASSERT_TRUE(client->Create(kube::kConfigMaps, empty));
  options_.kubeconfig = ::pitcrew::testing::ApiServer::Shared().kubeconfig().string();
  options_.config_map = "default:counters";
  Start("gpus: [{profile: T4}]");
  EXPECT_THAT(Metrics(), HasSubstr("DCGM_FI_DEV_SM_CLOCK{"));
  Stop();
  for (const auto* wrong : {"default:empty", "default:missing"}) {
    options_.config_map = wrong;
    Run();
    stop_->Stop();
    thread_.join();
    EXPECT_FALSE(result_) << wrong;
  }
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter

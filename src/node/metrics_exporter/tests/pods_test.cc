// Devices of pods, labels of pods, jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/metrics_exporter/job_mapping.h"
#include "node/metrics_exporter/pod_facts.h"
#include "node/metrics_exporter/pod_map.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

Round TestRound() {
  Round round;
  round.gpus = {{"0", "GPU-a", std::nullopt}, {"1", "GPU-b", std::nullopt}};
  round.mig_devices = {{"MIG-m", "1-7"}};
  Entity gpu;
  gpu.number = "0";
  gpu.uuid = "GPU-a";
  gpu.device = "nvidia0";
  Entity instance;
  instance.number = "1";
  instance.uuid = "GPU-b";
  instance.device = "nvidia1";
  instance.profile = "1g.10gb";
  instance.gpu_instance = "7";
  Entity other = instance;
  other.gpu_instance = "8";
  round.entities = {gpu, instance, other};
  return round;
}

std::vector<std::string> PodsOf(const Owners& owners) {
  std::vector<std::string> names;
  for (const auto& owner : owners.of) {
    for (const auto& [name, value] : owner.attributes) {
      if (name == "pod" || name == "pod_name") names.push_back(value);
    }
  }
  return names;
}

rpc::PodDevices Pod(const std::string& name, const std::string& resource,
                    const std::vector<std::string>& ids) {
  return {"default", name, {{resource, ids, "main"}}};
}

OwnersOf Map(const std::vector<rpc::PodDevices>& pods, const PodMapOptions& options = {},
             const PodFactsByName& facts = {}) {
  return MapOwners(TestRound(), pods, facts, {}, options);
}

TEST(Pods, EveryFormOfADeviceIdIsUnderstood) {
  RecordProperty("holds", "metrics-exporter.md #31");
  const auto round = TestRound();
  EXPECT_THAT(KeysOf("GPU-a", round), ElementsAre("GPU-a"));
  EXPECT_THAT(KeysOf("MIG-m", round), ElementsAre("MIG-m", "1-7", "m"));
  EXPECT_THAT(KeysOf("MIG-m::2", round), Contains("1-7"));
  EXPECT_THAT(KeysOf("MIG-GPU-b/3/0", round), Contains("1-3"));
  EXPECT_THAT(KeysOf("MIG-unknown", round), ElementsAre("MIG-unknown", "unknown"));
  EXPECT_THAT(KeysOf("nvidia0/gi0", round), ElementsAre("nvidia0/gi0", "0-0"));
  EXPECT_THAT(KeysOf("nvidia0/gi1/vgpu0", round), Contains("0-1"));
  EXPECT_THAT(KeysOf("0/vgpu", round), ElementsAre("0/vgpu", "0"));
  EXPECT_THAT(KeysOf("nvidia0/vgpu1", round), Contains("nvidia0"));
  EXPECT_THAT(KeysOf("GPU-a::", round), Contains("GPU-a"));
  EXPECT_EQ(PodsOf(Map({Pod("p", "nvidia.com/mig-1g.10gb", {"MIG-m"})})[1]),
            std::vector<std::string>{"p"});
  EXPECT_THAT(PodsOf(Map({Pod("p", "nvidia.com/a100", {"GPU-a"})})[0]), IsEmpty());
  EXPECT_THAT(PodsOf(Map({Pod("p", "nvidia.com/a100", {"GPU-a"})},
                         {.resource_names = {"nvidia.com/a100"}})[0]),
              ElementsAre("p"));
  EXPECT_THAT(PodsOf(Map({Pod("p", "nvidia.com/gpu", {"nvidia0"})},
                         {.id_type = GpuIdType::kDeviceName})[0]),
              ElementsAre("p"));
}

TEST(Pods, SharedGpusAreToBeNamed) {
  RecordProperty("holds", "metrics-exporter.md #32");
  const auto pods = {Pod("p", "nvidia.com/gpu.shared", {"GPU-a::1"})};
  EXPECT_THAT(PodsOf(Map(pods)[0]), IsEmpty());
  EXPECT_THAT(PodsOf(Map(pods, {.resource_names = {"nvidia.com/gpu.shared"}})[0]),
              ElementsAre("p"));
}

TEST(Pods, ReplicasHaveNumbers) {
  RecordProperty("holds", "metrics-exporter.md #33");
  EXPECT_EQ(ReplicaOf("nvidia0/vgpu0"), "0");
  EXPECT_EQ(ReplicaOf("nvidia0/gi0/vgpu1"), "1");
  EXPECT_EQ(ReplicaOf("GPU-a::3"), "3");
  EXPECT_EQ(ReplicaOf("MIG-m::0"), "0");
  for (const auto* id : {"nvidia0", "nvidia0/gi0", "GPU-a", "MIG-m", ""}) {
    EXPECT_EQ(ReplicaOf(id), "") << id;
  }
  EXPECT_EQ(WithoutReplica("MIG-m::"), "MIG-m");
  EXPECT_EQ(WithoutReplica("GPU-a::3"), "GPU-a");
  EXPECT_EQ(WithoutReplica(""), "");
}

TEST(Pods, APodHasItsInstanceOnly) {
  RecordProperty("holds", "metrics-exporter.md #34");
  const auto owners = Map({Pod("p", "nvidia.com/mig-1g.10gb", {"MIG-m"})});
  EXPECT_THAT(owners[0].of, IsEmpty());
  EXPECT_THAT(owners[1].of, SizeIs(1));
  EXPECT_THAT(owners[2].of, IsEmpty());
}

TEST(Pods, AllPodsThatShareADeviceOwnIt) {
  const auto owners = Map({Pod("a", "nvidia.com/gpu", {"GPU-a::0", "GPU-a::1"}),
                           Pod("b", "nvidia.com/gpu", {"GPU-a::2"})});
  EXPECT_THAT(PodsOf(owners[0]), ElementsAre("a", "b"));
}

TEST(Pods, WithVirtualGpusReplicasAreToldApart) {
  RecordProperty("holds", "metrics-exporter.md #39");
  const auto owners =
      Map({Pod("a", "nvidia.com/gpu", {"GPU-a::0", "GPU-a::1"})}, {.virtual_gpus = true});
  ASSERT_THAT(owners[0].of, SizeIs(2));
  EXPECT_THAT(owners[0].of[0].attributes, Contains(Pair("vgpu", "0")));
  EXPECT_THAT(owners[0].of[1].attributes, Contains(Pair("vgpu", "1")));
  EXPECT_THAT(owners[1].of, IsEmpty()) << "series of unused devices stay as they are";
}

TEST(Pods, WithVirtualGpusProcessesAreSummedByPod) {
  RecordProperty("holds", "metrics-exporter.md #40");
  auto round = TestRound();
  constexpr std::uint64_t kMebibyte = 1048576;
  round.entities[0].processes = {{10, 100 * kMebibyte, 30}, {11, 28 * kMebibyte, 12}};
  const PodFactsByName facts = {{"default/a", {"uid-a", {}}}, {"default/idle", {"uid-idle", {}}}};
  const auto owners = MapOwners(
      round,
      {Pod("a", "nvidia.com/gpu", {"GPU-a::0"}), Pod("idle", "nvidia.com/gpu", {"GPU-a::1"})},
      facts, {{10, "uid-a"}, {11, "uid-a"}}, {.virtual_gpus = true});
  ASSERT_THAT(owners[0].of, SizeIs(2));
  EXPECT_EQ(owners[0].of[0].values.at("DCGM_FI_DEV_GPU_UTIL"), "42");
  EXPECT_EQ(owners[0].of[0].values.at("DCGM_FI_DEV_FB_USED"), "128");
  EXPECT_EQ(owners[0].of[1].values.at("DCGM_FI_DEV_GPU_UTIL"), "0");
  EXPECT_THAT(owners[0].of[1].attributes, Contains(Pair("pod_uid", "uid-idle")));
  EXPECT_THAT(owners[0].also_device, Contains("DCGM_FI_DEV_GPU_UTIL"));
  // Of instances only memory is known by process.
  const auto on_instance = MapOwners(round, {Pod("a", "nvidia.com/mig-1g.10gb", {"MIG-m"})}, facts,
                                     {}, {.virtual_gpus = true});
  EXPECT_THAT(on_instance[1].also_device, ElementsAre("DCGM_FI_DEV_FB_USED"));
}

TEST(Pods, UidsAndLabelsComeFromTheApi) {
  RecordProperty("holds", "metrics-exporter.md #36");
  const PodFactsByName facts = {{"default/p", {"uid-1", {{"app", "x"}}}}};
  const auto owners = Map({Pod("p", "nvidia.com/gpu", {"GPU-a"})}, {.pod_uids = true}, facts);
  ASSERT_THAT(owners[0].of, SizeIs(1));
  EXPECT_THAT(owners[0].of[0].attributes, Contains(Pair("pod_uid", "uid-1")));
  EXPECT_THAT(owners[0].of[0].labels, ElementsAre(Pair("app", "x")));
  const auto old = Map({Pod("p", "nvidia.com/gpu", {"GPU-a"})}, {.old_namespace = true}, facts);
  EXPECT_THAT(old[0].of[0].attributes,
              ElementsAre(Pair("container_name", "main"), Pair("pod_namespace", "default"),
                          Pair("pod_name", "p")));
}

TEST(PodLabels, BecomeNamesThatPrometheusTakes) {
  RecordProperty("holds", "metrics-exporter.md #35");
  EXPECT_EQ(LabelName("app.kubernetes.io/name"), "app_kubernetes_io_name");
  EXPECT_EQ(LabelName("0day"), "_0day");
  for (const auto* own : {"gpu", "UUID", "hostname", "__name__"}) EXPECT_EQ(LabelName(own), "");
  EXPECT_THAT(SeriesLabels({{"a.b", "1"}, {"a/b", "2"}, {"gpu", "3"}}, LabelFilter({})),
              ElementsAre(Pair("a_b", "1")));
}

TEST(PodLabels, TheAllowListSaysWhich) {
  RecordProperty("holds", "metrics-exporter.md #37");
  const LabelFilter some({"^app", "("});
  EXPECT_THAT(some.warnings(), SizeIs(1));
  EXPECT_TRUE(some.Allows("app"));
  EXPECT_TRUE(some.Allows("apps.io/x"));
  EXPECT_FALSE(some.Allows("team"));
  const LabelFilter wrong({"("});
  EXPECT_TRUE(wrong.Allows("team")) << "as upstream";
  EXPECT_TRUE(LabelFilter({}).Allows("team"));
}

TEST(Pods, AProcessIsInThePodOfItsCgroups) {
  RecordProperty("holds", "metrics-exporter.md #41");
  const std::string uid = "0b2c1d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e";
  EXPECT_EQ(PodUidOfCgroups("11:memory:/kubepods/besteffort/pod" + uid + "/abc\n"), uid);
  EXPECT_EQ(PodUidOfCgroups("1:cpu:/x\n4:memory:/kubepods/burstable/pod" + uid + "/c\n"), uid);
  EXPECT_EQ(PodUidOfCgroups("0::/kubepods.slice/kubepods-burstable.slice/"
                            "kubepods-burstable-pod0b2c1d3e_4f5a_6b7c_8d9e_0f1a2b3c4d5e.slice/x\n"),
            uid);
  EXPECT_EQ(PodUidOfCgroups("0::/system.slice/sshd.service\n"), "");
  EXPECT_EQ(PodUidOfCgroups("0::/pod123/x\n"), "");
}

TEST(Jobs, AreReadFromFilesNamedAsDevices) {
  RecordProperty("holds", "metrics-exporter.md #43");
  const test_support::TemporaryFolder folder;
  folder.Write("0", "job-1\njob-2\n\n");
  folder.Write("1.7", "job-3");
  folder.Write("readme", "no");
  folder.Write("x.1", "no");
  std::filesystem::create_directory(folder.path() / "2");
  const auto jobs = ReadJobs(folder.path());
  ASSERT_TRUE(jobs) << jobs.error().message;
  EXPECT_THAT(*jobs, ElementsAre(Pair("0", ElementsAre("job-1", "job-2")),
                                 Pair("1.7", ElementsAre("job-3"))));
  EXPECT_THAT(*ReadJobs(folder.path() / "missing"), IsEmpty());
  OwnersOf owners = Map({Pod("p", "nvidia.com/gpu", {"GPU-a"})});
  AddJobs(TestRound(), *jobs, owners);
  ASSERT_THAT(owners[0].of, SizeIs(2));
  EXPECT_THAT(owners[0].of[1].attributes, Contains(Pair("hpc_job", "job-2")));
  EXPECT_THAT(owners[0].of[1].attributes, Contains(Pair("pod", "p")));
  EXPECT_THAT(owners[1].of, SizeIs(1));
  EXPECT_THAT(owners[2].of, IsEmpty());
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter

#include "simulation/description/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>

#include "gpu/mig_profile.h"
#include "simulation/description/profiles.h"
#include "simulation/state/mig.h"

namespace pitcrew::simulation {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<NodeState> Parse(const std::string& text) {
  const auto node = ParseDescription(text, "gpus.yaml", {"node-1", "", {}});
  EXPECT_TRUE(node) << node.error().message;
  return node ? std::make_unique<NodeState>(*node) : std::make_unique<NodeState>();
}

std::string ErrorOf(const std::string& text) {
  const auto node = ParseDescription(text, "gpus.yaml", {"node-1", "", {}});
  if (node) return "no error";
  EXPECT_EQ(node.error().code, base::Code::kInvalid);
  return node.error().message;
}

TEST(Description, EightGpusOfOneModel) {
  const auto node = Parse("gpus: [{profile: H100-80, count: 8}]\n");
  ASSERT_EQ(node->gpu_count, 8u);
  EXPECT_STREQ(node->driver_version, "580.95.05");
  EXPECT_EQ(node->cuda_version, 13000u);
  std::set<std::string> uuids;
  std::set<std::uint32_t> buses;
  for (const auto& gpu : std::span(node->gpus, 8)) {
    EXPECT_STREQ(gpu.name, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(gpu.pci_device_id, 0x233010deu);
    uuids.insert(gpu.uuid);
    buses.insert(gpu.pci_bus);
  }
  EXPECT_EQ(uuids.size(), 8u);
  EXPECT_EQ(buses.size(), 8u);
  EXPECT_EQ(node->gpus[3].numa_node, 0);
  EXPECT_EQ(node->gpus[4].numa_node, 1);
}

TEST(Description, IdentifiersFollowFromTheNodesName) {
  const auto first = Parse("gpus: [{profile: T4, count: 2}]");
  const auto again = Parse("gpus: [{profile: T4, count: 2}]");
  EXPECT_STREQ(first->gpus[1].uuid, again->gpus[1].uuid);
  EXPECT_STREQ(first->gpus[1].serial, again->gpus[1].serial);
  const auto other = Parse("node: node-2\ngpus: [{profile: T4, count: 2}]");
  EXPECT_STRNE(first->gpus[1].uuid, other->gpus[1].uuid);
}

TEST(Description, EverythingOfASingleGpuCanBeGiven) {
  const auto node = Parse(R"(
node: gpu-1
driver: {version: "570.124.06", cuda: "12.8"}
gpus:
  - profile: A100-80
    uuid: GPU-11111111-2222-3333-4444-555555555555
    serial: "1"
    pci: 0000:07:00.0
    minor: 5
    numa: -1
    memory_mib: 81910
    name: NVIDIA A100 of ours
    load: 40
    ecc: false
    nvlink: {peers: direct, links: 12}
    fabric: {cluster: 0a0b0c0d-0000-0000-0000-000000000001, clique: 7}
    mig: {enabled: true, devices: {1g.10gb: 2, 3g.40gb: 1}}
)");
  const GpuState& gpu = node->gpus[0];
  EXPECT_STREQ(gpu.uuid, "GPU-11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(gpu.pci_bus, 7u);
  EXPECT_EQ(gpu.minor_number, 5u);
  EXPECT_EQ(gpu.numa_node, -1);
  EXPECT_EQ(gpu.memory_total, 81910ull << 20);
  EXPECT_EQ(gpu.ecc_current, 0u);
  EXPECT_EQ(gpu.link_peers, LinkPeers::kDirect);
  EXPECT_EQ(gpu.fabric_cluster[1], 0x0b);
  EXPECT_EQ(gpu.fabric_clique, 7u);
  EXPECT_EQ(ListMigDevices(gpu).size(), 3u);
  EXPECT_EQ(node->cuda_version, 12080u);
}

// Malformed input: file, line, what is wrong, what would be right.
TEST(DescriptionErrors, NameThePlaceAndTheRemedy) {
  EXPECT_THAT(
      ErrorOf("gpus:\n  - profile: H1000\n"),
      ::testing::AllOf(HasSubstr("gpus.yaml:2:14"), HasSubstr("H1000"),
                       HasSubstr("A100-40, A100-80, A30, A40, B200, B300, GB200, H100-80")));
  EXPECT_THAT(ErrorOf("gpus:\n  - {profile: T4, cuont: 2}\n"),
              ::testing::AllOf(HasSubstr("gpus.yaml:2:"), HasSubstr("\"cuont\""),
                               HasSubstr("profile, count")));
  EXPECT_THAT(ErrorOf("gpus:\n  - profile: T4\n    count: many\n"),
              ::testing::AllOf(HasSubstr("gpus.yaml:3:12"), HasSubstr("from 1 to 16"),
                               HasSubstr("\"many\"")));
  EXPECT_THAT(ErrorOf("gpu: []\n"), HasSubstr("lacks the key \"gpus\""));
  EXPECT_THAT(ErrorOf("gpus: []\n"), HasSubstr("must be a list"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4}\n"), HasSubstr("gpus.yaml:"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("lacks the key \"gpus\""));
  EXPECT_THAT(ErrorOf("- a\n"), HasSubstr("must be a mapping"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4}]\nnode: a\nnode: b\n"), HasSubstr("twice"));
}

TEST(DescriptionErrors, WhatCannotBe) {
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4, count: 9}, {profile: T4, count: 9}]"),
              HasSubstr("16 GPUs at most"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4, mig: {enabled: true}}]"), HasSubstr("has no MIG"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4, count: 2, uuid: GPU-1}]"), HasSubstr("count 1"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4, pci: nowhere}]"), HasSubstr("0000:1b:00.0"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: T4, minor: 1}, {profile: T4}]"),
              HasSubstr("the same minor number"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.10gb+me: 1}}}]"),
              ::testing::AllOf(HasSubstr("no MIG profile \"1g.10gb+me\""), HasSubstr("1g.5gb+me")));
  EXPECT_THAT(ErrorOf("gpus: [{profile: A100-40, mig: {enabled: true, devices: {3g.20gb: 3}}}]"),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf("gpus: [{profile: A100-40, mig: {enabled: false, devices: {3g.20gb: 1}}}]"),
              HasSubstr("enabled: true"));
  EXPECT_THAT(ErrorOf("driver: {version: newest}\ngpus: [{profile: T4}]"), HasSubstr("580.95.05"));
}

// feature-discovery.md section 17 and #19.
TEST(CudaVersion, FollowsTheDriverBranch) {
  EXPECT_EQ(*CudaVersionOf("550.54.15"), 12040u);
  EXPECT_EQ(*CudaVersionOf("560.28.03"), 12060u);
  EXPECT_EQ(*CudaVersionOf("580.95.05"), 13000u);
  EXPECT_EQ(*CudaVersionOf("400.300"), 11000u);
  EXPECT_FALSE(CudaVersionOf("550"));
  EXPECT_FALSE(CudaVersionOf("550.x"));
}

using Counts = std::map<std::string, unsigned>;

// The whole profiles of a model by name, with how many fit.
Counts ProfilesOf(const std::string& model) {
  const auto gpu = LoadProfile(model, {});
  Counts counts;
  if (!gpu) return counts;
  for (const auto& profile : std::span(gpu->profiles, gpu->profile_count)) {
    for (const auto& compute : std::span(profile.compute_profiles, profile.compute_profile_count)) {
      if (compute.slices != profile.slices) continue;
      const auto name =
          gpu::NameMigProfile(profile.index, compute.index, profile.memory_mib, gpu->memory_total);
      counts[name->Name()] = profile.max_instances;
    }
  }
  return counts;
}

// mig-manager.md section 12.1: names and maximum counts.
TEST(Profiles, MigProfilesHaveTheDocumentedNamesAndCounts) {
  EXPECT_EQ(
      ProfilesOf("A30"),
      (Counts{{"1g.6gb", 4}, {"1g.6gb+me", 1}, {"2g.12gb", 2}, {"2g.12gb+me", 1}, {"4g.24gb", 1}}));
  EXPECT_EQ(ProfilesOf("A100-40"), (Counts{{"1g.5gb", 7},
                                           {"1g.5gb+me", 1},
                                           {"1g.10gb", 4},
                                           {"2g.10gb", 3},
                                           {"3g.20gb", 2},
                                           {"4g.20gb", 1},
                                           {"7g.40gb", 1}}));
  const Counts eighty = {{"1g.10gb", 7}, {"1g.10gb+me", 1}, {"1g.20gb", 4}, {"2g.20gb", 3},
                         {"3g.40gb", 2}, {"4g.40gb", 1},    {"7g.80gb", 1}};
  EXPECT_EQ(ProfilesOf("A100-80"), eighty);
  EXPECT_EQ(ProfilesOf("H100-80"), eighty);
  EXPECT_EQ(ProfilesOf("H200"), (Counts{{"1g.18gb", 7},
                                        {"1g.18gb+me", 1},
                                        {"1g.35gb", 4},
                                        {"2g.35gb", 3},
                                        {"3g.71gb", 2},
                                        {"4g.71gb", 1},
                                        {"7g.141gb", 1}}));
  EXPECT_EQ(ProfilesOf("B200"), (Counts{{"1g.23gb", 7},
                                        {"1g.23gb+me", 1},
                                        {"1g.45gb", 4},
                                        {"2g.45gb", 3},
                                        {"3g.90gb", 2},
                                        {"4g.90gb", 1},
                                        {"7g.180gb", 1}}));
  EXPECT_TRUE(ProfilesOf("L40S").empty());
}

// mig-manager.md section 11: device ids that the default configurations name.
TEST(Profiles, DeviceIdsAreThoseOfTheModels) {
  EXPECT_EQ(LoadProfile("A100-40", {})->pci_device_id, 0x20b010deu);
  EXPECT_EQ(LoadProfile("A100-80", {})->pci_device_id, 0x20b210deu);
  EXPECT_EQ(LoadProfile("A30", {})->pci_device_id, 0x20b710deu);
  EXPECT_EQ(LoadProfile("H100-80", {})->pci_device_id, 0x233010deu);
  EXPECT_EQ(LoadProfile("H200", {})->pci_device_id, 0x233510deu);
  EXPECT_EQ(LoadProfile("B200", {})->pci_device_id, 0x290110deu);
}

TEST(Profiles, AllOfThemLoad) {
  EXPECT_EQ(ProfileNames({}),
            (std::vector<std::string>{"A10", "A100-40", "A100-80", "A30", "A40", "B200", "B300",
                                      "GB200", "H100-80", "H100-NVL", "H100-PCIE", "H200", "L4",
                                      "L40S", "RTX-PRO-6000", "T4"}));
  for (const auto& name : ProfileNames({})) {
    const auto gpu = LoadProfile(name, {});
    ASSERT_TRUE(gpu) << gpu.error().message;
    EXPECT_STREQ(gpu->profile, name.c_str());
    EXPECT_EQ(gpu->pci_device_id & 0xffff, 0x10deu) << name;
  }
}

}  // namespace
}  // namespace pitcrew::simulation

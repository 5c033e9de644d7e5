// Names, pools and images of what NVIDIADriver objects have. The expected values are
// upstream's, from the tests and golden files that the checklists name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "api/labels.h"
#include "codec/yaml.h"
#include "desired/driver_objects/pools.h"
#include "desired/driver_objects/render.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

api::NvidiaDriver DriverWith(const std::string& spec, const std::string& name = "a") {
  const auto object = codec::ParseYaml(fmt::format(
      "{{apiVersion: nvidia.com/v1alpha1, kind: NVIDIADriver, metadata: {{name: {}, uid: {}-uid}}, "
      "spec: {}}}",
      name, name, spec));
  EXPECT_TRUE(object) << object.error().ToString();
  return *api::ReadNvidiaDriver(*object);
}

using DriverNodes = std::vector<std::shared_ptr<const Node>>;

// A GPU node of driver "a"; an empty value leaves the label out.
std::shared_ptr<const Node> NodeWith(const std::string& name,
                                     const std::map<std::string_view, std::string>& labels) {
  Node node;
  node.name = name;
  node.labels.Add(api::kGpuPresent, "true");
  if (!labels.contains(api::kDriverOwner)) node.labels.Add(api::kDriverOwner, "a");
  for (const auto& [key, value] : labels) {
    if (!value.empty()) node.labels.Add(key, value);
  }
  return std::make_shared<const Node>(std::move(node));
}

std::shared_ptr<const Node> Ubuntu(const std::string& name, const std::string& version,
                                   const std::string& kernel = "") {
  return NodeWith(name, {{api::kOsReleaseId, "ubuntu"},
                         {api::kOsReleaseVersionId, version},
                         {api::kKernelVersionFull, kernel}});
}

std::shared_ptr<const Node> RedHat(const std::string& name, const std::string& version) {
  return NodeWith(name, {{api::kOsReleaseId, "rhel"},
                         {api::kOsReleaseVersionId, version},
                         {api::kOsReleaseVersionMajor, version.substr(0, version.find('.'))}});
}

// driver-lifecycle.md #31, #45; operand-manifests.md #42, operator-behaviour.md #46.
TEST(DriverNames, AreUpstreams) {
  RecordProperty(
      "holds", "driver-lifecycle.md #31, #45, operand-manifests.md #42, operator-behaviour.md #46");
  EXPECT_EQ(SafeHash("2269c984-db9a-4b0e-9fd5-86df0ad269f7"), "7c6d7bd86b");
  EXPECT_EQ(SafeHash("2269c984-db9a-4b0e-9fd5-86df0ad269f7-5.15.0-1041-azure"), "79d6bd954f");
  EXPECT_EQ(SafeHash("rhcos4.14-414.92.202309282257"), "5bbdb464cb");

  api::NvidiaDriver driver;
  driver.uid = "bfac7359-6033-45ce-88d6-53db0078526e";
  DriverPool pool{.name = "p", .os = {.id = "ubuntu", .version_id = "20.04"}};
  EXPECT_EQ(DriverAppName(driver, pool), "nvidia-gpu-driver-ubuntu20.04-67cc6dbb79");
  pool.kernel = "5.15.0-70-generic";
  EXPECT_EQ(DriverAppName(driver, pool), "nvidia-gpu-driver-ubuntu20.04-59b779bcc5");
  pool.os = {.id = "redhatCoreOS", .version_id = "4.14-414.92.202309282257"};
  EXPECT_EQ(DriverAppName(driver, pool),
            "nvidia-gpu-driver-redhatCoreOS4.14-414.92.2023092822-59b779bcc5");
  EXPECT_EQ(DriverAppName(driver, pool).size(), 63U);

  driver.uid = "d5b3a1f2-38a9-4b72-bff1-21fd569fd305";
  pool = {.name = "p",
          .os = {.id = "rhcos", .version_id = "4.14"},
          .rhcos_version = "414.92.202309282257"};
  EXPECT_EQ(DriverAppName(driver, pool), "nvidia-gpu-driver-rhcos4.14-6f4fc4fc6");
}

TEST(DriverNames, OfObjectsNameTheDriver) {
  api::NvidiaDriver driver;
  driver.name = "training";
  DriverPool pool{.name = "p", .os = {.id = "ubuntu", .version_id = "22.04"}};
  EXPECT_EQ(DriverObjectName(driver, pool), "nvidia-gpu-driver-training-ubuntu22.04");
  driver.type = api::kDriverTypeVgpuHost;
  EXPECT_EQ(DriverObjectName(driver, pool), "nvidia-vgpu-manager-training-ubuntu22.04");
  EXPECT_THAT(DriverAppName(driver, pool),
              HasSubstr("nvidia-vgpu-host-manager-driver-ubuntu22.04-"));
  driver.name = std::string(253, 'x');
  EXPECT_EQ(DriverObjectName(driver, pool).size(), 253U);
}

// driver-lifecycle.md #40; operand-manifests.md #44, operator-behaviour.md #45.
TEST(DriverPools, AreOneForEachOperatingSystem) {
  RecordProperty("holds",
                 "driver-lifecycle.md #40, operand-manifests.md #44, operator-behaviour.md #45");
  const DriverNodes nodes = {RedHat("r1", "9.4"), RedHat("r2", "9.5"), Ubuntu("u1", "22.04")};
  const DriverPools pools = PoolsOf(nodes, DriverWith("{}"), false);
  ASSERT_THAT(pools.pools, SizeIs(2));
  EXPECT_EQ(pools.pools[0].name, "rhel9");
  EXPECT_EQ(pools.pools[0].nodes, 2U);
  EXPECT_THAT(pools.pools[0].node_selector,
              UnorderedElementsAre(Pair(api::kGpuPresent, "true"), Pair(api::kDriverOwner, "a"),
                                   Pair(api::kOsReleaseId, "rhel"),
                                   Pair(api::kOsReleaseVersionMajor, "9")));
  EXPECT_EQ(pools.pools[1].name, "ubuntu22.04");
  EXPECT_THAT(pools.pools[1].node_selector,
              UnorderedElementsAre(Pair(api::kGpuPresent, "true"), Pair(api::kDriverOwner, "a"),
                                   Pair(api::kOsReleaseId, "ubuntu"),
                                   Pair(api::kOsReleaseVersionId, "22.04")));
}

// driver-lifecycle.md #41: left out, and known to be left out.
TEST(DriverPools, ANodeOfUnknownSystemIsInNone) {
  RecordProperty("holds", "driver-lifecycle.md #41");
  const DriverNodes nodes = {Ubuntu("u1", "22.04"), NodeWith("n1", {{api::kOsReleaseId, "ubuntu"}}),
                             NodeWith("n2", {})};
  const DriverPools pools = PoolsOf(nodes, DriverWith("{}"), false);
  ASSERT_THAT(pools.pools, SizeIs(1));
  EXPECT_EQ(pools.pools[0].nodes, 1U);
  EXPECT_THAT(pools.unknown,
              ElementsAre(Pair("n1", api::kOsReleaseVersionId), Pair("n2", api::kOsReleaseId)));
  EXPECT_EQ(pools.nodes(), 3U);
}

// driver-lifecycle.md #42: the selector keeps the kernel as the label has it.
TEST(DriverPools, PrecompiledDriversHaveOneForEachKernel) {
  RecordProperty("holds", "driver-lifecycle.md #42");
  const DriverNodes nodes = {Ubuntu("u1", "22.04", "5.15.0-70-generic_x86_64"),
                             Ubuntu("u2", "22.04", "5.15.0-71-generic"), Ubuntu("u3", "22.04")};
  const DriverPools pools = PoolsOf(nodes, DriverWith("{usePrecompiled: true}"), false);
  ASSERT_THAT(pools.pools, SizeIs(2));
  EXPECT_EQ(pools.pools[0].kernel, "5.15.0-70-generic_x86_64");
  EXPECT_EQ(pools.pools[0].node_selector.at(std::string(api::kKernelVersionFull)),
            "5.15.0-70-generic_x86_64");
  EXPECT_THAT(pools.unknown, ElementsAre(Pair("u3", api::kKernelVersionFull)));
}

// DriverNodes of two architectures have kernels whose names differ in nothing else.
TEST(DriverPools, KernelsOfTwoArchitecturesAreTwo) {
  const DriverNodes nodes = {Ubuntu("u1", "22.04", "5.14.0-427.el9.x86_64"),
                             Ubuntu("u2", "22.04", "5.14.0-427.el9.aarch64")};
  const api::NvidiaDriver driver = DriverWith("{usePrecompiled: true}");
  const DriverPools pools = PoolsOf(nodes, driver, false);
  ASSERT_THAT(pools.pools, SizeIs(2));
  EXPECT_NE(DriverAppName(driver, pools.pools[0]), DriverAppName(driver, pools.pools[1]));
}

// driver-lifecycle.md #43.
TEST(DriverPools, OpenShiftHasOneForEachVersionOfRhcos) {
  RecordProperty("holds", "driver-lifecycle.md #43");
  const auto node = [](const std::string& name, const std::string& version) {
    return NodeWith(name, {{api::kOsReleaseId, "rhcos"},
                           {api::kOsReleaseVersionId, "4.14"},
                           {api::kOsTreeVersion, version}});
  };
  const DriverNodes nodes = {node("o1", "414.92.202309282257"), node("o2", "")};
  const DriverPools pools = PoolsOf(nodes, DriverWith("{}"), true);
  ASSERT_THAT(pools.pools, SizeIs(1));
  EXPECT_EQ(pools.pools[0].name, "414.92.202309282257");
  EXPECT_EQ(pools.pools[0].rhcos_version, "414.92.202309282257");
  EXPECT_EQ(pools.pools[0].node_selector.at(std::string(api::kOsTreeVersion)),
            "414.92.202309282257");
  EXPECT_THAT(pools.unknown, ElementsAre(Pair("o2", api::kOsTreeVersion)));
  EXPECT_THAT(PoolsOf(nodes, DriverWith("{usePrecompiled: true}"), true).pools, IsEmpty());
}

// driver-lifecycle.md #44: neither can a driver take nodes of another, nor nodes without a GPU.
TEST(DriverPools, OnlyTheNodesOfTheDriverCount) {
  RecordProperty("holds", "driver-lifecycle.md #44");
  const DriverNodes nodes = {NodeWith("b1", {{api::kDriverOwner, "b"},
                                             {api::kOsReleaseId, "ubuntu"},
                                             {api::kOsReleaseVersionId, "22.04"}}),
                             Ubuntu("u1", "24.04")};
  const auto driver = DriverWith(
      fmt::format("{{nodeSelector: {{{}: b, {}: 'false'}}}}", api::kDriverOwner, api::kGpuPresent));
  const DriverPools pools = PoolsOf(nodes, driver, false);
  ASSERT_THAT(pools.pools, SizeIs(1));
  EXPECT_EQ(pools.pools[0].name, "ubuntu24.04");
  EXPECT_EQ(pools.pools[0].node_selector.at(std::string(api::kDriverOwner)), "a");
  EXPECT_EQ(pools.pools[0].node_selector.at(std::string(api::kGpuPresent)), "true");
  EXPECT_THAT(PoolsOf(nodes, DriverWith("{nodeSelector: {pool: x}}"), false).pools, IsEmpty());
}

// --- rendering ---

struct RenderedDriver {
  std::vector<Object> objects;
  std::string error;

  [[nodiscard]] std::vector<Json> DaemonSets() const {
    std::vector<Json> found;
    for (const Object& object : objects) {
      if (object["kind"] == "DaemonSet") found.push_back(object);
    }
    return found;
  }
};

RenderedDriver RenderWith(
    const api::NvidiaDriver& driver, const DriverNodes& nodes,
    const std::function<const OwnedObject*(const std::string&)>& standing =
        [](const std::string&) -> const OwnedObject* { return nullptr; },
    const DefaultImages& images = testing::TestImages()) {
  const Facts facts = testing::ReadCluster(testing::PlainCluster());
  const auto objects = RenderDriver(driver, PoolsOf(nodes, driver, false),
                                    {.facts = facts,
                                     .images = images,
                                     .operator_namespace = "gpu-operator",
                                     .host_root = "/",
                                     .standing = standing});
  if (!objects) return {.objects = {}, .error = objects.error().message};
  return {.objects = *objects, .error = ""};
}

std::string ImageFrom(const Json& daemonset) {
  return testing::ContainerOf(daemonset, "nvidia-driver-ctr")["image"];
}

std::string ImageWith(const std::string& image, const DriverNodes& nodes) {
  const RenderedDriver rendered = RenderWith(DriverWith(image), nodes);
  const auto daemonsets = rendered.DaemonSets();
  return daemonsets.empty() ? rendered.error : ImageFrom(daemonsets[0]);
}

// clusterpolicy-api.md #27, driver-lifecycle.md #35.
TEST(DriverObjects, TheImageIsTheObjectsOwn) {
  RecordProperty("holds", "clusterpolicy-api.md #27, driver-lifecycle.md #35");
  const DriverNodes nodes = {Ubuntu("u1", "22.04")};
  EXPECT_EQ(ImageWith("{image: 'nvcr.io/nvidia/driver:525.85.03'}", nodes),
            "nvcr.io/nvidia/driver:525.85.03-ubuntu22.04");
  EXPECT_EQ(ImageWith("{repository: nvcr.io/nvidia, image: driver, version: 535.104.05}", nodes),
            "nvcr.io/nvidia/driver:535.104.05-ubuntu22.04");
  const std::string digest = "sha256:" + std::string(64, 'a');
  EXPECT_EQ(
      ImageWith(fmt::format("{{repository: nvcr.io/nvidia, image: driver, version: '{}'}}", digest),
                nodes),
      "nvcr.io/nvidia/driver@" + digest);
  EXPECT_THAT(ImageWith("{}", nodes), HasSubstr("spec.version: missing"));
  EXPECT_THAT(ImageWith("{repository: nvcr.io/nvidia, image: 'driver:1', version: '2'}", nodes),
              HasSubstr("spec."));
  EXPECT_THAT(ImageWith("{repository: 'nvcr.io/?', image: driver, version: '2'}", nodes),
              HasSubstr("spec."));
  EXPECT_THAT(ImageWith("{repository: nvcr.io/nvidia, image: driver, version: '580/1'}", nodes),
              HasSubstr("spec.version: \"nvcr.io/nvidia/driver:580/1-ubuntu22.04\" is not"));
}

// clusterpolicy-api.md #28, #31, driver-lifecycle.md #36, #37.
TEST(DriverObjects, PrecompiledImagesNameTheKernel) {
  RecordProperty("holds", "clusterpolicy-api.md #28, #31, driver-lifecycle.md #36, #37");
  const DriverNodes nodes = {Ubuntu("u1", "22.04", "5.15.0-generic"),
                             Ubuntu("u2", "20.04", "5.4.0-generic")};
  const RenderedDriver rendered = RenderWith(
      DriverWith("{repository: nvcr.io/nvidia, image: driver, version: 535.104.05, usePrecompiled: "
                 "true}"),
      nodes);
  const auto daemonsets = rendered.DaemonSets();
  ASSERT_THAT(daemonsets, SizeIs(2)) << rendered.error;
  EXPECT_EQ(ImageFrom(daemonsets[0]), "nvcr.io/nvidia/driver:535.104.05-5.4.0-generic-ubuntu20.04");
  EXPECT_EQ(ImageFrom(daemonsets[1]),
            "nvcr.io/nvidia/driver:535.104.05-5.15.0-generic-ubuntu22.04");
  const auto selector = [&](std::size_t i) {
    return daemonsets[i]["spec"]["template"]["spec"]["nodeSelector"];
  };
  EXPECT_EQ(selector(0)[std::string(api::kOsReleaseVersionId)], "20.04");
  EXPECT_EQ(selector(1)[std::string(api::kOsReleaseVersionId)], "22.04");
  EXPECT_THAT(ImageWith("{image: 'nvcr.io/nvidia/driver:525', usePrecompiled: true}",
                        {Ubuntu("u1", "22.04", "5.4.0-150-generic")}),
              "nvcr.io/nvidia/driver:525-5.4.0-150-generic-ubuntu22.04");
  EXPECT_THAT(ImageWith(fmt::format("{{repository: nvcr.io/nvidia, image: driver, version: "
                                    "'sha256:{}', usePrecompiled: true}}",
                                    std::string(64, 'a')),
                        nodes),
              HasSubstr("spec.version: a digest names one image"));
}

// driver-lifecycle.md #54.
TEST(DriverObjects, TheDevicesOfTheHostAreOneFolder) {
  RecordProperty("holds", "driver-lifecycle.md #54");
  const auto daemonsets =
      RenderWith(DriverWith("{image: 'registry.test/driver:580'}"), {Ubuntu("u1", "22.04")})
          .DaemonSets();
  ASSERT_THAT(daemonsets, SizeIs(1));
  EXPECT_EQ(testing::VolumeOf(daemonsets[0], "host-sys-devices-system")["hostPath"],
            (Json{{"path", "/sys/devices/system"}, {"type", "Directory"}}));
  EXPECT_THAT(testing::MountsOf(testing::ContainerOf(daemonsets[0], "nvidia-driver-ctr")),
              ::testing::Contains("host-sys-devices-system:/sys/devices/system"));
}

// Kernels of one operating system have one service account, one role and one startup probe.
TEST(DriverObjects, EachObjectOnce) {
  const DriverNodes nodes = {Ubuntu("u1", "22.04", "5.15.0-70-generic"),
                             Ubuntu("u2", "22.04", "5.15.0-71-generic")};
  const RenderedDriver rendered =
      RenderWith(DriverWith("{image: 'registry.test/driver:580', usePrecompiled: true}"), nodes);
  std::map<std::string, int> kinds;
  for (const Object& object : rendered.objects) ++kinds[object["kind"]];
  EXPECT_EQ(kinds["DaemonSet"], 2);
  EXPECT_EQ(kinds["ServiceAccount"], 1);
  EXPECT_EQ(kinds["ClusterRole"], 1);
  EXPECT_EQ(kinds["ConfigMap"], 1);
  for (const Object& object : rendered.objects) {
    EXPECT_EQ(object["metadata"]["ownerReferences"][0]["kind"], "NVIDIADriver") << object;
    EXPECT_EQ(object["metadata"]["labels"][std::string(api::kStateLabel)], "state-driver");
  }
}

TEST(DriverObjects, WithoutNodesThereAreNone) {
  const RenderedDriver rendered = RenderWith(DriverWith("{image: 'registry.test/driver:580'}"), {});
  EXPECT_THAT(rendered.objects, IsEmpty());
  EXPECT_EQ(rendered.error, "");
}

// operator-behaviour.md #41.
TEST(DriverObjects, CombinationsThatCannotWorkAreRefusedByTheirFields) {
  RecordProperty("holds", "operator-behaviour.md #41");
  const auto problems = [](const std::string& spec) {
    std::vector<std::string> paths;
    for (const auto& problem : CheckDriver(DriverWith(spec))) paths.push_back(problem.path);
    return paths;
  };
  EXPECT_THAT(problems("{usePrecompiled: true, gds: {enabled: true, version: v2.16.1}}"),
              ElementsAre("spec.gds.enabled"));
  EXPECT_THAT(problems("{usePrecompiled: true, gdrcopy: {enabled: true}}"),
              ElementsAre("spec.gdrcopy.enabled"));
  for (const char* version : {"v2.17.5", "2.17.5", "v3", "v2.20", "'sha256:abc'"}) {
    const std::string spec = fmt::format("gds: {{enabled: true, version: {}}}", version);
    EXPECT_THAT(problems("{" + spec + "}"), ElementsAre("spec.kernelModuleType")) << version;
    EXPECT_THAT(problems("{kernelModuleType: open, " + spec + "}"), IsEmpty()) << version;
  }
  for (const char* version : {"v2.17.4", "v2.17.5-rc.1", "latest", "v2.9", "570.172.08"}) {
    EXPECT_THAT(problems(fmt::format("{{gds: {{enabled: true, version: {}}}}}", version)),
                IsEmpty())
        << version;
  }
}

// Before there is a node for the driver, too (operator-behaviour.md section 8.1).
TEST(DriverObjects, ASecretThatIsMissingIsNamed) {
  const char* spec = "{image: 'registry.test/driver:580', secretEnv: nobody}";
  EXPECT_THAT(ImageWith(spec, {Ubuntu("u1", "22.04")}), HasSubstr("spec.secretEnv: Secret nobody"));
  EXPECT_THAT(RenderWith(DriverWith(spec), {}).error, HasSubstr("spec.secretEnv: Secret nobody"));
}

// operator-behaviour.md section 8.5.
TEST(DriverObjects, ANewOperatorRestartsNoDriver) {
  const DriverNodes nodes = {Ubuntu("u1", "22.04")};
  const std::string spec = "{image: 'registry.test/driver:580'}";
  DefaultImages old_images = testing::TestImages();
  old_images["DRIVER_MANAGER_IMAGE"] = "registry.test/manager:old";
  DefaultImages new_images = old_images;
  new_images["DRIVER_MANAGER_IMAGE"] = "registry.test/manager:new";
  const auto none = [](const std::string&) -> const OwnedObject* { return nullptr; };
  const auto stood = RenderWith(DriverWith(spec), nodes, none, old_images).DaemonSets();
  ASSERT_THAT(stood, SizeIs(1));
  OwnedObject standing = ReadOwned(stood[0]);
  EXPECT_EQ(standing.manager_image, "registry.test/manager:old");
  const auto found = [&](const std::string& name) -> const OwnedObject* {
    return name == stood[0]["metadata"]["name"] ? &standing : nullptr;
  };
  const auto manager = [](const Json& daemonset) {
    return testing::ContainerOf(daemonset, "k8s-driver-manager")["image"];
  };
  const auto kept = RenderWith(DriverWith(spec), nodes, found, new_images).DaemonSets();
  EXPECT_EQ(kept.at(0), stood.at(0));
  // With another change the new image comes along.
  const auto changed =
      RenderWith(DriverWith("{image: 'registry.test/driver:590'}"), nodes, found, new_images)
          .DaemonSets();
  EXPECT_EQ(manager(changed.at(0)), "registry.test/manager:new");
  // Whoever names an image gets it.
  const auto named = RenderWith(DriverWith("{image: 'registry.test/driver:580', manager: {image: "
                                           "'registry.test/manager:mine'}}"),
                                nodes, found, new_images)
                         .DaemonSets();
  EXPECT_EQ(manager(named.at(0)), "registry.test/manager:mine");
}

}  // namespace
}  // namespace pitcrew::desired

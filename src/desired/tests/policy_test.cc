// Around the rendering: images, settings that several operands share, readiness.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/daemonset.h"
#include "desired/image_reference.h"
#include "desired/operands/driver_variant.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::HasSubstr;

TEST(Images, References) {
  RecordProperty("holds",
                 "clusterpolicy-api.md #22 to #26, driver-lifecycle.md #32 to #34 "
                 "[TestImagePath*]");
  const DefaultImages defaults = {{"X_IMAGE", "default/x:1"}};
  const auto resolve = [&](const char* repository, const char* image, const char* version) {
    return ResolveImage({.path = "spec.x",
                         .repository = repository,
                         .image = image,
                         .version = version,
                         .pull_policy = {},
                         .pull_secrets = {}},
                        "X_IMAGE", defaults);
  };
  EXPECT_EQ(resolve("nvcr.io/nvidia", "driver", "535"), "nvcr.io/nvidia/driver:535");
  EXPECT_EQ(resolve("nvcr.io/nvidia", "driver", "sha256:abc"), "nvcr.io/nvidia/driver@sha256:abc");
  EXPECT_EQ(resolve("", "nvcr.io/nvidia/driver@sha256:abc", ""),
            "nvcr.io/nvidia/driver@sha256:abc");
  EXPECT_EQ(resolve("", "", ""), "default/x:1");
  constexpr const char* kInvalid[][3] = {{"", "img", "ver"},   {"", "img", "sha256:1"},
                                         {"repo", "", "ver"},  {"", "", "ver"},
                                         {"", "", "sha256:1"}, {"repo", "img", ""}};
  for (const auto& parts : kInvalid) {
    const auto refused = resolve(parts[0], parts[1], parts[2]);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("invalid image specification"));
    EXPECT_THAT(refused.error().message, HasSubstr("spec.x."));
  }
  const auto missing = ResolveImage({.path = "spec.x",
                                     .repository = {},
                                     .image = {},
                                     .version = {},
                                     .pull_policy = {},
                                     .pull_secrets = {}},
                                    "Y_IMAGE", defaults);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("Y_IMAGE"));
}

TEST(Images, WhatTheKubeletWouldNotTakeForAReferenceIsRefusedByItsField) {
  const auto refused = [](const std::string& reference, const std::string& version) {
    const auto status = RequireReference({.path = "spec.x",
                                          .repository = "r",
                                          .image = "i",
                                          .version = version,
                                          .pull_policy = {},
                                          .pull_secrets = {}},
                                         reference);
    return status ? std::string() : status.error().message.substr(0, 14);
  };
  const std::string digest = "sha256:" + std::string(64, 'a');
  for (const std::string& good :
       {std::string("driver:580.1.2"), std::string("nvcr.io/nvidia/driver:580.1.2-ubuntu22.04"),
        std::string("localhost:5000/a/b-c_d__e--f.g:V1"), std::string("[fd00::1]:5000/a:1"),
        "nvcr.io/nvidia/driver@" + digest, "nvcr.io/nvidia/driver:1@" + digest,
        std::string("nvcr.io/nvidia/driver"), "a:" + std::string(128, '1')}) {
    EXPECT_EQ(refused(good, "1"), "") << good;
  }
  EXPECT_EQ(refused("r/driver:a/b-ubuntu22.04", "a/b"), "spec.x.version");
  EXPECT_EQ(refused("r/driver:a+b-ubuntu22.04", "a+b"), "spec.x.version");
  EXPECT_EQ(refused("r/driver@sha256:abc", "sha256:abc"), "spec.x.version");
  EXPECT_EQ(refused("r/driver:-1", "-1"), "spec.x.version");
  for (const std::string& bad :
       {std::string("nvcr.io/NVIDIA/driver:1"), std::string("nvcr.io//driver:1"),
        std::string("nvcr.io:port/driver:1"), std::string("a..b/driver__-x:1"), std::string(":1"),
        std::string("driver-:1"), "driver@" + digest + "0", "a:" + std::string(129, '1')}) {
    EXPECT_EQ(refused(bad, "1"), "spec.x.image: ") << bad;
  }
}

TEST(Images, OperatingSystemTags) {
  RecordProperty("holds",
                 "clusterpolicy-api.md #30, operand-manifests.md #43, driver-lifecycle.md #38 "
                 "[TestGetOSTag]");
  const std::tuple<const char*, const char*, const char*> kRows[] = {
      {"rhel", "9.4", "rhel9"},
      {"rhel", "8.10", "rhel8"},
      {"rhel", "10.2", "rhel10"},
      {"rocky", "9.5", "rocky9"},
      {"ol", "9.5", "ol9"},
      {"ubuntu", "24.04", "ubuntu24.04"},
      {"sles", "15.6", "sles15.6"},
      {"sles", "15-SP6", "sles15-SP6"},
      {"sl-micro", "6.0", "sl-micro6.0"},
      {"talos", "v1.12.6", "talosv1.12.6"},
      {"archlinux", "rolling", "archlinuxrolling"}};
  for (const auto& [id, version, tag] : kRows) EXPECT_EQ((OsRelease{id, version}).tag(), tag);
  EXPECT_EQ(WithOsTag("a@sha256:1", {"ubuntu", "22.04"}), "a@sha256:1");
}

TEST(Driver, KernelNames) {
  RecordProperty("holds",
                 "operand-manifests.md #40, operator-behaviour.md #47, driver-lifecycle.md #39 "
                 "[TestGetSanitizedKernelVersion]");
  for (const char* suffix : {"aarch64", "aarch64_64k", "x86_64", "x86_64_64k"}) {
    EXPECT_EQ(SanitizeKernelVersion(std::string("5.14.0-427.37.1.el9_4.") + suffix),
              "5.14.0-427.37.1.el9.4");
  }
  EXPECT_EQ(SanitizeKernelVersion("5.15.0-70-generic_x86_64"), "5.15.0-70-generic");
}

TEST(FactsTest, ContainerRuntimes) {
  RecordProperty("holds", "operator-behaviour.md #15 [TestGetRuntimeString]");
  EXPECT_EQ(RuntimeOf("containerd://2.2.0"), Runtime::kContainerd);
  EXPECT_EQ(RuntimeOf("docker://27"), Runtime::kDocker);
  EXPECT_EQ(RuntimeOf("cri-o://1.33"), Runtime::kCrio);
  EXPECT_FALSE(RuntimeOf("unknown://1"));
}

// The labels that are missing are named.
TEST(FactsTest, MissingSystemLabelsAreNamed) {
  RecordProperty("holds", "operator-behaviour.md #16 [TestGetGPUNodeOSInfo*]");
  const std::string error = testing::RenderError("state-driver", "{}", R"(
nodes:
- metadata: {name: gpu-1, labels: {nvidia.com/gpu.present: "true"}}
)");
  EXPECT_THAT(error, HasSubstr("system-os_release.ID"));
  EXPECT_THAT(error, HasSubstr("gpu-1"));
}

TEST(FactsTest, OpenShiftVersion) {
  const auto version = codec::ParseYaml(R"(
status: {history: [{state: Partial, version: 4.19.0}, {state: Completed, version: 4.18.12}]}
)");
  EXPECT_EQ(OpenShiftVersionOf(*version), "4.18");
  EXPECT_FALSE(OpenShiftVersionOf(Json::object()));
}

TEST(CommonConfig, UpdateStrategy) {
  RecordProperty("holds",
                 "operand-manifests.md #3, clusterpolicy-api.md #32, driver-lifecycle.md #49 "
                 "[TestApplyUpdateStrategyConfig]");
  const auto strategy = [](const std::string& state, const std::string& settings) {
    const Json daemonset = testing::RenderDaemonSet(state, "{daemonsets: " + settings + "}");
    const Json* found = codec::Find(daemonset, {"spec", "updateStrategy"});
    return found == nullptr ? std::string() : found->dump();
  };
  constexpr const char* kPlugin = "state-device-plugin";
  EXPECT_EQ(strategy(kPlugin, "{}"), "");
  EXPECT_EQ(strategy(kPlugin, "{updateStrategy: RollingUpdate}"), "");
  EXPECT_EQ(strategy(kPlugin, "{rollingUpdate: {maxUnavailable: \"1\"}}"),
            R"({"rollingUpdate":{"maxUnavailable":1},"type":"RollingUpdate"})");
  EXPECT_EQ(strategy(kPlugin, "{rollingUpdate: {maxUnavailable: 10%}}"),
            R"({"rollingUpdate":{"maxUnavailable":"10%"},"type":"RollingUpdate"})");
  EXPECT_EQ(strategy(kPlugin, "{updateStrategy: OnDelete}"), R"({"type":"OnDelete"})");
  EXPECT_EQ(strategy("state-driver", "{rollingUpdate: {maxUnavailable: \"1\"}}"),
            R"({"type":"OnDelete"})");
  EXPECT_THAT(
      testing::RenderError(kPlugin, "{daemonsets: {rollingUpdate: {maxUnavailable: 10%a}}}"),
      HasSubstr("spec.daemonsets.rollingUpdate.maxUnavailable"));
}

TEST(ContainerToolkitTest, ConfigSourceGoesThroughTheHostRoot) {
  RecordProperty("holds", "operand-manifests.md #10 [TestTransformForRuntime]");
  const auto source = [](const std::string& value) {
    const Json daemonset = testing::RenderDaemonSet(
        "state-container-toolkit",
        "{toolkit: {env: [{name: RUNTIME_CONFIG_SOURCE, value: \"" + value + "\"}]}}");
    for (const auto& text :
         testing::EnvOf(testing::ContainerOf(daemonset, "nvidia-container-toolkit-ctr"))) {
      if (text.starts_with("RUNTIME_CONFIG_SOURCE=")) return text.substr(22);
    }
    return std::string();
  };
  EXPECT_EQ(source("file,command"), "file,command");
  EXPECT_EQ(source("file=/path/to/custom/source/config.toml,command"),
            "file=/host/path/to/custom/source/config.toml,command");
}

// <RUNTIME>_CONFIG beats RUNTIME_CONFIG beats the default.
TEST(ContainerToolkitTest, ConfigFileOverrides) {
  RecordProperty("holds", "operand-manifests.md #14");
  const auto folder = [](const std::string& env) {
    const Json daemonset =
        testing::RenderDaemonSet("state-container-toolkit", "{toolkit: {env: [" + env + "]}}");
    return testing::VolumeOf(daemonset, "containerd-config")["hostPath"]["path"];
  };
  EXPECT_EQ(folder(""), "/etc/containerd");
  EXPECT_EQ(folder("{name: RUNTIME_CONFIG, value: /a/x}"), "/a");
  EXPECT_EQ(folder("{name: RUNTIME_CONFIG, value: /a/x}, {name: CONTAINERD_CONFIG, value: /b/y}"),
            "/b");
}

TEST(Driver, Subscriptions) {
  RecordProperty("holds",
                 "operand-manifests.md #41, driver-lifecycle.md #51 "
                 "[TestTransformDriverSubscriptionMounts]");
  constexpr const char* kRhel = R"(
configMaps: {repos: [a.repo]}
nodes:
- metadata:
    name: gpu-1
    labels:
      nvidia.com/gpu.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: rhel
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "9.4"
)";
  const Json with = testing::RenderDaemonSet("state-driver", "{}", kRhel);
  const std::pair<const char*, const char*> paths[] = {{"/etc/pki/entitlement", "Directory"},
                                                       {"/etc/yum.repos.d/redhat.repo", "File"},
                                                       {"/etc/rhsm", "Directory"}};
  for (std::size_t i = 0; i < std::size(paths); ++i) {
    const Json volume = testing::VolumeOf(with, "subscription-config-" + std::to_string(i));
    EXPECT_EQ(volume["hostPath"], Json({{"path", paths[i].first}, {"type", paths[i].second}}));
  }
  const Json without = testing::RenderDaemonSet(
      "state-driver", "{driver: {repoConfig: {configMapName: repos}}}", kRhel);
  EXPECT_TRUE(testing::VolumeOf(without, "subscription-config-0").is_null());
}

TEST(Driver, FoldersOfRepositoriesAndCertificates) {
  RecordProperty("holds", "driver-lifecycle.md #52 [TestDriverConfigPathHelpers]");
  const auto cluster = [](const std::string& id) {
    return "configMaps: {repos: [a.repo], certs: [a.pem]}\n"
           "nodes: [{metadata: {name: gpu-1, labels: {nvidia.com/gpu.present: 'true', "
           "feature.node.kubernetes.io/system-os_release.VERSION_ID: '9.4', "
           "feature.node.kubernetes.io/system-os_release.ID: " +
           id + "}}}]\n";
  };
  constexpr const char* kRepositories = "{driver: {repoConfig: {configMapName: repos}}}";
  constexpr const char* kCertificates = "{driver: {certConfig: {name: certs}}}";
  const auto mounts = [&](const char* spec, const std::string& id) {
    return testing::MountsOf(testing::ContainerOf(
        testing::RenderDaemonSet("state-driver", spec, cluster(id)), "nvidia-driver-ctr"));
  };
  EXPECT_THAT(mounts(kRepositories, "rhel"),
              ::testing::Contains("repos:/etc/yum.repos.d/a.repo:ro:sub=a.repo"));
  EXPECT_THAT(mounts(kCertificates, "rhcos"),
              ::testing::Contains("certs:/etc/pki/ca-trust/extracted/pem/a.pem:ro:sub=a.pem"));
  for (const char* spec : {kRepositories, kCertificates}) {
    const auto error = testing::RenderError("state-driver", spec, cluster("plan9"));
    EXPECT_THAT(error, ::testing::HasSubstr("plan9")) << spec;
  }
}

TEST(Driver, PrecompiledModulesOfSuse) {
  RecordProperty("holds",
                 "operand-manifests.md #39, driver-lifecycle.md #50 "
                 "[TestDriverPrecompiledLibModules*]");
  const auto mounts = [](const std::string& id) {
    const Json daemonset =
        testing::RenderDaemonSet("state-driver", "{driver: {usePrecompiled: true}}",
                                 R"(
nodes:
- metadata:
    name: gpu-1
    labels:
      nvidia.com/gpu.present: "true"
      feature.node.kubernetes.io/kernel-version.full: 6.4.0-default
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "16.0"
      feature.node.kubernetes.io/system-os_release.ID: )" +
                                     id);
    return testing::MountsOf(testing::ContainerOf(daemonset, "nvidia-driver-ctr"));
  };
  EXPECT_THAT(mounts("sles"), ::testing::Contains("lib-modules:/run/host/lib/modules:ro"));
  EXPECT_THAT(mounts("sl-micro"), ::testing::Contains("lib-modules:/run/host/lib/modules:ro"));
  EXPECT_THAT(mounts("ubuntu"),
              ::testing::Not(::testing::Contains("lib-modules:/run/host/lib/modules:ro")));
}

TEST(Driver, VariablesOfRdmaAndOfTheManager) {
  RecordProperty("holds",
                 "driver-lifecycle.md #46 to #48 [TestTransformDriver, "
                 "TestTransformDriverManagerInitContainer, TestTransformDriverRDMA]");
  const Json daemonset = testing::RenderDaemonSet("state-driver", R"(
driver:
  repository: nvcr.io/nvidia
  image: driver
  version: "595.91.07"
  resources: {limits: {cpu: "2"}}
  manager:
    repository: nvcr.io/nvidia/cloud-native
    image: k8s-driver-manager
    version: v0.12.0
    env: [{name: A, value: b}]
  rdma: {enabled: true, useHostMofed: true}
)");
  const Json& driver = testing::ContainerOf(daemonset, "nvidia-driver-ctr");
  const Json& manager = testing::ContainerOf(daemonset, "k8s-driver-manager");
  const Json& peermem = testing::ContainerOf(daemonset, "nvidia-peermem-ctr");
  EXPECT_THAT(testing::EnvOf(driver),
              ::testing::IsSupersetOf({"GPU_DIRECT_RDMA_ENABLED=true", "USE_HOST_MOFED=true"}));
  EXPECT_THAT(testing::EnvOf(peermem), ::testing::Contains("USE_HOST_MOFED=true"));
  EXPECT_THAT(testing::EnvOf(peermem),
              ::testing::Not(::testing::Contains("GPU_DIRECT_RDMA_ENABLED=true")));
  const auto env = testing::EnvOf(manager);
  const auto at = [&](std::string_view text) { return std::ranges::find(env, text) - env.begin(); };
  EXPECT_LT(at("GPU_DIRECT_RDMA_ENABLED=true"), at("USE_HOST_MOFED=true"));
  EXPECT_LT(at("USE_HOST_MOFED=true"), at("A=b"));
  EXPECT_LT(at("A=b"), std::ssize(env));
  EXPECT_EQ(manager["resources"], Json({{"limits", {{"cpu", "2"}}}}));
  EXPECT_EQ(driver["image"], "nvcr.io/nvidia/driver:595.91.07-ubuntu22.04");
  EXPECT_EQ(peermem["image"], driver["image"]);
  EXPECT_EQ(manager["image"], "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0");
}

TEST(Driver, Errors) {
  RecordProperty("holds", "driver-lifecycle.md #53 [TestTransformDriverWithAdditionalConfig]");
  EXPECT_THAT(testing::RenderError("state-driver", "{driver: {repoConfig: {configMapName: r}}}",
                                   "{configMaps: {r: null}}"),
              HasSubstr("spec.driver.repoConfig.configMapName"));
  EXPECT_THAT(testing::RenderError("state-driver",
                                   "{driver: {usePrecompiled: true}, gds: {enabled: true}}"),
              HasSubstr("spec.gds.enabled"));
  EXPECT_THAT(testing::RenderError("state-driver", "{driver: {secretEnv: s}}"),
              HasSubstr("spec.driver.secretEnv"));
}

TEST(PolicyCheck, NriNeedsCdiAndToolkit) {
  RecordProperty("holds",
                 "operand-manifests.md #47, clusterpolicy-api.md #36 "
                 "[TestValidateClusterPolicySpec]");
  const auto check = [](const std::string& spec) {
    const auto policy = api::ReadClusterPolicy(testing::MinimalPolicy(*codec::ParseYaml(spec)));
    const auto problems = CheckPolicy(*policy);
    return problems.empty() ? std::string() : problems[0].message;
  };
  EXPECT_EQ(check("{cdi: {nriPluginEnabled: true}}"), "");
  EXPECT_EQ(check("{cdi: {enabled: false, nriPluginEnabled: true}}"),
            "the NRI Plugin cannot be enabled when CDI is disabled");
  EXPECT_EQ(check("{cdi: {nriPluginEnabled: true}, toolkit: {enabled: false}}"),
            "the NRI Plugin cannot be enabled when the Container Toolkit is disabled");
}

TEST(PolicyCheck, AWrongValueFailsItsOperandOnly) {
  constexpr const char* kSpec = "{gfd: {env: {A: b}}}";
  EXPECT_THAT(testing::RenderError("gpu-feature-discovery", kSpec), HasSubstr("spec.gfd.env"));
  EXPECT_EQ(testing::RenderError("state-device-plugin", kSpec), "");
  EXPECT_THAT(testing::RenderError("state-device-plugin", "{daemonsets: {tolerations: x}}"),
              HasSubstr("spec.daemonsets.tolerations"));
}

TEST(Manifests, AllAreEmbeddedAndParse) {
  for (const Operand& operand : Operands()) {
    const auto objects = Operands().LoadManifests(operand.state, true);
    ASSERT_TRUE(objects) << objects.error().ToString();
    EXPECT_FALSE(objects->empty()) << operand.state;
    for (const Json& object : *objects) EXPECT_NE(KindOf(object), nullptr) << object.dump();
  }
}

TEST(Readiness, DaemonSets) {
  RecordProperty("holds",
                 "operator-behaviour.md #20, operand-manifests.md #53 "
                 "[TestIsDaemonSetRollingUpdateComplete]");
  const DaemonSetStatus ready{.generation = 2,
                              .observed_generation = 2,
                              .desired = 3,
                              .updated = 3,
                              .available = 3,
                              .unavailable = 0};
  EXPECT_TRUE(IsReady(ready));
  const auto changed = [&](std::int64_t DaemonSetStatus::* member, std::int64_t value) {
    DaemonSetStatus status = ready;
    status.*member = value;
    return IsReady(status);
  };
  EXPECT_FALSE(changed(&DaemonSetStatus::observed_generation, 1));
  EXPECT_FALSE(changed(&DaemonSetStatus::updated, 2));
  EXPECT_FALSE(changed(&DaemonSetStatus::available, 2));
  EXPECT_FALSE(changed(&DaemonSetStatus::unavailable, 1));
  EXPECT_TRUE(IsReady({.generation = 1,
                       .observed_generation = 1,
                       .desired = 0,
                       .updated = 0,
                       .available = 0,
                       .unavailable = 0}));
}

TEST(Coverage, IgnoresDefaultsAndSeesRemovals) {
  const Json desired = {{"a", {{"b", 1}}}, {"list", {{{"name", "x"}}}}, {"empty", ""}};
  EXPECT_TRUE(
      Covers({{"a", {{"b", 1}, {"c", 2}}}, {"list", {{{"name", "x"}, {"d", 1}}}}}, desired));
  EXPECT_FALSE(Covers({{"a", {{"b", 2}}}, {"list", {{{"name", "x"}}}}}, desired));
  EXPECT_FALSE(Covers({{"a", {{"b", 1}}}, {"list", Json::array()}}, desired));
  EXPECT_FALSE(Covers({{"a", {{"b", 1}}}, {"list", {{{"name", "x"}}, {{"name", "y"}}}}}, desired));
}

}  // namespace
}  // namespace pitcrew::desired

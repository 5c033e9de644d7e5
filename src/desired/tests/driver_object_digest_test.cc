// Digests of what NVIDIADriver objects have, from upstream's golden files (driver-lifecycle.md
// 13.1).
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "desired/operands/driver_digest.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kRhcosVersion = "413.92.202304252344-0";

class DriverObjectDigestTest : public ::testing::Test {
 protected:
  DriverObjectDigestTest() {
    spec_.driver.kernel_module_type = "";
    parts_.driver_image = "nvcr.io/nvidia/driver:525.85.03-ubuntu22.04";
    parts_.manager_image = "nvcr.io/nvidia/cloud-native/k8s-driver-manager:devel";
  }

  std::string Digest() {
    const api::ClusterPolicy policy;
    const DefaultImages images;
    return DriverObjectDigest(parts_, {.policy = policy,
                                       .facts = facts_,
                                       .images = images,
                                       .operator_namespace = "test-operator",
                                       .driver_spec = &spec_});
  }
  // The additional mounts and volumes of upstream's golden files.
  void AddFiles() {
    AddMount(parts_.mounts, {.volume = "test-cm",
                             .path = "/opt/config/test-file",
                             .read_only = true,
                             .sub_path = "test-file"});
    AddMount(parts_.mounts, {.volume = "test-host-path", .path = "/opt/config/test-host-path"});
    AddMount(parts_.mounts, {.volume = "test-host-path-ro",
                             .path = "/opt/config/test-host-path-ro",
                             .read_only = true});
    SetVolume(parts_.volumes, ConfigMapVolume("test-cm", "test-cm", {"test-file"}));
    SetVolume(parts_.volumes, HostPathVolume("test-host-path", "/opt/config/test-host-path"));
    SetVolume(parts_.volumes, HostPathVolume("test-host-path-ro", "/opt/config/test-host-path-ro"));
  }
  void AddLicenceMounts() {
    AddMount(parts_.mounts, {.volume = "licensing-config",
                             .path = "/drivers/ClientConfigToken/client_configuration_token.tok",
                             .sub_path = "client_configuration_token.tok"});
    AddMount(
        parts_.mounts,
        {.volume = "licensing-config", .path = "/drivers/gridd.conf", .sub_path = "gridd.conf"});
  }
  // OpenShift with its driver toolkit.
  void BuildWithToolkit() {
    facts_.openshift_version = "4.13";
    parts_.toolkit = true;
    parts_.toolkit_image =
        "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:"
        "7fecaebc1d51b28bc3548171907e4d91823a031d7a6a694ab686999be2b4d867";
    spec_.pool.rhcos_version = kRhcosVersion;
  }
  void UseProxy() {
    facts_.proxy = Proxy{.http = "http://user:pass@example:8080",
                         .https = "https://user:pass@example:8085",
                         .none = "internal.example.com",
                         .trusted_ca = "gpu-operator-trusted-ca"};
  }

  DriverSpec spec_;
  DriverObjectParts parts_;
  Facts facts_;
};

TEST_F(DriverObjectDigestTest, OfTheDescription) {
  RecordProperty("holds",
                 "driver-lifecycle.md #1, #2, operand-manifests.md #36 [TestDriverRenderMinimal, "
                 "TestDriverHostNetwork, TestDriverSpec]");
  EXPECT_EQ(Digest(), "886542011");
  spec_.driver.host_network = true;
  EXPECT_EQ(Digest(), "886542011");
  spec_.type = "";
  spec_.driver.kernel_module_type = "open";
  spec_.driver.args = {"--foo", "--bar"};
  spec_.driver.env = {{"FOO", "foo"}, {"BAR", "bar"}};
  spec_.driver.manager.env = {{"BAR", "bar"}, {"FOO", "foo"}};
  EXPECT_EQ(Digest(), "2311915915");
}

TEST_F(DriverObjectDigestTest, WithFilesAndSidecars) {
  RecordProperty("holds",
                 "driver-lifecycle.md #3 to #7, operand-manifests.md #36 "
                 "[TestDriverAdditionalConfigs, TestDriverGDS, TestDriverGDRCopy, "
                 "TestDriverRenderRDMA, TestDriverRDMAHostMOFED]");
  AddFiles();
  EXPECT_EQ(Digest(), "2057338482");
  spec_.gds.enabled = true;
  parts_.gds_image = "nvcr.io/nvidia/cloud-native/nvidia-fs:2.16.1";
  EXPECT_EQ(Digest(), "3167573620");
  spec_.gds.enabled = false;
  spec_.gdrcopy.enabled = true;
  parts_.gdrcopy_image = "nvcr.io/nvidia/cloud-native/gdrdrv:v2.4.1";
  EXPECT_EQ(Digest(), "3850098627");
  spec_.gdrcopy.enabled = false;
  spec_.driver.rdma_enabled = true;
  EXPECT_EQ(Digest(), "3271748789");
  spec_.driver.rdma_use_host_mofed = true;
  EXPECT_EQ(Digest(), "3567795386");
}

TEST_F(DriverObjectDigestTest, WithASecret) {
  RecordProperty("holds", "driver-lifecycle.md #8 [TestDriverSecretEnv]");
  spec_.driver.secret_env = "test-secret-env";
  spec_.gds.enabled = true;
  parts_.gds_image = "nvcr.io/nvidia/cloud-native/nvidia-fs:2.16.1";
  spec_.gdrcopy.enabled = true;
  parts_.gdrcopy_image = "nvcr.io/nvidia/cloud-native/gdrdrv:v2.4.1";
  EXPECT_EQ(Digest(), "576617039");
}

TEST_F(DriverObjectDigestTest, OfAPrecompiledDriver) {
  RecordProperty("holds",
                 "driver-lifecycle.md #9, operand-manifests.md #36 [TestDriverPrecompiled]");
  parts_.driver_image = "nvcr.io/nvidia/driver:535-5.4.0-150-generic-ubuntu22.04";
  spec_.pool.kernel = "5.4.0-150-generic";
  EXPECT_EQ(Digest(), "648926272");
}

TEST_F(DriverObjectDigestTest, OnOpenShiftBehindAProxy) {
  RecordProperty("holds",
                 "driver-lifecycle.md #10, #11, operand-manifests.md #36 "
                 "[TestDriverOpenshiftDriverToolkit, TestDriverGDRCopyOpenShift]");
  parts_.driver_image = "nvcr.io/nvidia/driver:525.85.03-rhel8.0";
  BuildWithToolkit();
  UseProxy();
  EXPECT_EQ(Digest(), "3522141578");
  AddFiles();
  spec_.gdrcopy.enabled = true;
  parts_.gdrcopy_image = "nvcr.io/nvidia/cloud-native/gdrdrv:v2.4.1-rhcos4.13";
  EXPECT_EQ(Digest(), "2285021870");
}

TEST_F(DriverObjectDigestTest, OfAVgpuHost) {
  RecordProperty("holds",
                 "driver-lifecycle.md #12, #13, operand-manifests.md #36 "
                 "[TestVGPUHostManagerDaemonset, TestVGPUHostManagerDaemonsetOpenShift]");
  spec_.type = api::kDriverTypeVgpuHost;
  parts_.driver_image = "nvcr.io/nvidia/vgpu-manager:525.85.03-ubuntu22.04";
  EXPECT_EQ(Digest(), "495371686");
  parts_.driver_image = "nvcr.io/nvidia/vgpu-manager:525.85.03-rhel8.0";
  BuildWithToolkit();
  EXPECT_EQ(Digest(), "2802043621");
}

TEST_F(DriverObjectDigestTest, WithALicence) {
  RecordProperty(
      "holds",
      "driver-lifecycle.md #14, #15 [TestDriverVGPULicensing, TestDriverVGPULicensingSecret]");
  AddLicenceMounts();
  SetVolume(parts_.volumes, ConfigMapVolume("licensing-config", "licensing-config-configmap",
                                            {"client_configuration_token.tok", "gridd.conf"}));
  EXPECT_EQ(Digest(), "1619279977");
  spec_.driver.licensing.secret_name = "licensing-config-secret";
  SetVolume(parts_.volumes, {{"name", "licensing-config"},
                             {"secret", {{"secretName", "licensing-config-secret"}}}});
  EXPECT_EQ(Digest(), "1341669320");
}

// Of what the description may leave out: empty it is none, and set it counts.
TEST_F(DriverObjectDigestTest, AnEmptyFieldIsNone) {
  RecordProperty("holds",
                 "driver-lifecycle.md #27 [TestHashDriverInstallConfigZeroFieldInvariant]");
  const std::string without = Digest();
  const std::pair<const char*, std::string*> fields[] = {
      {"KernelModuleType", &spec_.driver.kernel_module_type},
      {"SecretEnvSource", &spec_.driver.secret_env},
      {"LicensingConfigName", &spec_.driver.licensing.secret_name},
      {"VirtualTopologyConfig", &spec_.driver.virtual_topology_config},
      {"KernelModuleConfig", &spec_.driver.kernel_module_config},
      {"RepoConfig", &spec_.driver.repo_config},
      {"CertConfig", &spec_.driver.cert_config},
      {"HostRoot", &spec_.host_root},
      {"KernelVersion", &spec_.pool.kernel},
      {"OpenshiftVersion", &facts_.openshift_version}};
  std::set<std::string> digests = {without};
  for (const auto& [name, field] : fields) {
    ASSERT_EQ(*field, "") << name;
    *field = "set";
    EXPECT_TRUE(digests.insert(Digest()).second) << name << " does not count by its name";
    *field = "";
    EXPECT_EQ(Digest(), without) << name;
  }
  facts_.proxy = Proxy{};
  EXPECT_EQ(Digest(), without);
  spec_.driver.args = {};
  spec_.driver.env = {};
  EXPECT_EQ(Digest(), without);
}

}  // namespace
}  // namespace pitcrew::desired

// The validator's pure parts, and its components over trees below a temporary folder.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "base/file.h"
#include "codec/yaml.h"
#include "host/device_links.h"
#include "host/device_node.h"
#include "node/validator/components.h"
#include "node/validator/driver_check.h"
#include "node/validator/memory_module.h"
#include "node/validator/options.h"
#include "node/validator/workload.h"
#include "nvml/nvml.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

using codec::Json;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

base::Result<std::optional<Options>> Read(std::map<std::string, std::string> environment,
                                          std::vector<std::string> words = {}) {
  words.insert(words.begin(), "nvidia-validator");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  return ReadOptions(static_cast<int>(pointers.size()), pointers.data(),
                     [&](const std::string& name) -> std::optional<std::string> {
                       const auto found = environment.find(name);
                       if (found == environment.end()) return std::nullopt;
                       return found->second;
                     });
}

TEST(Options, ComponentsAreChecked) {
  RecordProperty("holds", "validator.md #1");
  for (const auto* component : {"driver", "toolkit", "nvidia-fs", "gdrcopy", "nvidia-peermem"}) {
    EXPECT_TRUE(Read({{"COMPONENT", component}})) << component;
  }
  for (const auto* component : {"", "unknown", "foobar"}) {
    EXPECT_FALSE(Read({{"COMPONENT", component}})) << component;
  }
  for (const auto* component :
       {"vfio-pci", "vgpu-manager", "vgpu-devices", "cc-manager", "mofed"}) {
    EXPECT_FALSE(Read({{"COMPONENT", component}})) << component << " needs the node's name";
    EXPECT_TRUE(Read({{"COMPONENT", component}, {"NODE_NAME", "n"}})) << component;
  }
  for (const auto* component : {"cuda", "plugin"}) {
    EXPECT_FALSE(Read({{"COMPONENT", component}}));
    EXPECT_TRUE(Read({{"COMPONENT", component}, {"NODE_NAME", "n"}, {"OPERATOR_NAMESPACE", "ns"}}));
  }
}

TEST(Options, TheNodeStatusExporterNeedsAPortAndANode) {
  const auto error = [](std::map<std::string, std::string> environment) {
    environment.emplace("COMPONENT", "metrics");
    const auto options = Read(std::move(environment));
    return options ? "" : options.error().message;
  };
  EXPECT_EQ(error({{"NODE_NAME", "n"}}),
            "invalid -p <port> flag: must not be empty or 0 for the metrics component");
  EXPECT_THAT(error({{"NODE_NAME", "n"}, {"METRICS_PORT", "0"}}), HasSubstr("invalid -p"));
  EXPECT_THAT(error({{"NODE_NAME", "n"}, {"METRICS_PORT", "70000"}}), HasSubstr("invalid -p"));
  EXPECT_EQ(error({{"METRICS_PORT", "8000"}}),
            "invalid -n <node-name> flag: must not be empty string for metrics exporter");
  EXPECT_EQ(error({{"NODE_NAME", "n"}, {"METRICS_PORT", "8000"}}), "");
}

TEST(Options, DefaultsAndFlags) {  // validator.md section 1.1
  const auto options = **Read({{"COMPONENT", "driver"}});
  EXPECT_FALSE(options.with_wait);
  EXPECT_TRUE(options.with_workload);
  EXPECT_EQ(options.output_folder, "/run/nvidia/validations");
  EXPECT_EQ(options.retry_interval, std::chrono::seconds(5));
  EXPECT_EQ(options.host_root, "/");
  const auto given = **Read({{"COMPONENT", "toolkit"}, {"WITH_WAIT", "true"}},
                            {"-c", "cuda", "-n", "node-a", "--namespace", "ns", "-l=false",
                             "--validator-image-pull-secrets", "a,b"});
  EXPECT_EQ(given.component, "cuda");
  EXPECT_TRUE(given.with_wait);
  EXPECT_FALSE(given.with_workload);
  EXPECT_THAT(given.image_pull_secrets, ElementsAre("a", "b"));
}

// A node whose host has no driver and whose driver container is in `driver`.
class DriverTest : public ::testing::Test {
 protected:
  DriverTest() {
    options_.component = "driver";
    options_.output_folder = root_.path() / "validations";
    options_.host_seen_at = root_.path() / "host";
    options_.driver_seen_at = root_.path() / "driver";
    options_.device_links_folder = root_.path() / "dev-char";
    options_.proc = root_.path() / "proc";
  }
  void Program(const std::string& inside, const std::string& script) {
    const auto path = root_.Write(inside, script);
    ::chmod(path.c_str(), 0755);
  }
  TemporaryFolder root_;
  Options options_;
};

TEST_F(DriverTest, AHostWithoutNvidiaSmiHasNoDriver) {  // validator.md section 3.1
  const auto driver = CheckHostDriver(options_, {});
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().reason, "NoHostDriver");
}

TEST_F(DriverTest, WslIsAHostDriverWithoutLinks) {  // validator.md section 3.1
  root_.Write("host/usr/lib/wsl/lib/nvidia-smi", "x");
  const auto driver = CheckHostDriver(options_, {});
  ASSERT_TRUE(driver);
  EXPECT_TRUE(driver->wsl);
  EXPECT_TRUE(driver->root.is_host);
}

TEST_F(DriverTest, ADriverContainerWithoutLibrariesIsNotReady) {
  RecordProperty("holds", "validator.md #7");
  const auto driver = CheckContainerDriver(options_, {});
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().reason, "DriverLibraryNotFound");
}

TEST_F(DriverTest, NvidiaSmiDecidesWhereNvmlCannotBeUsed) {  // validator.md section 3.3
  root_.Write("driver/usr/lib64/libnvidia-ml.so.1", "no library");
  Program("driver/usr/bin/nvidia-smi", "#!/bin/sh\nexit 0\n");
  const auto driver = CheckContainerDriver(options_, {});
  ASSERT_TRUE(driver) << driver.error().message;
  EXPECT_FALSE(driver->root.is_host);
  EXPECT_EQ(driver->root.device_root, "/");
  EXPECT_EQ(driver->devices_seen_at, root_.path() / "host/dev");
  Program("driver/usr/bin/nvidia-smi", "#!/bin/sh\nexit 9\n");
  const auto broken = CheckContainerDriver(options_, {});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().reason, "NvidiaSmiFailed");
  EXPECT_THAT(broken.error().message, HasSubstr("exit status 9"));
}

// A wait for it would have no end: the container ends, and its next start has the node's folder.
// Until then it does not speak for the node's driver.
TEST_F(DriverTest, AContainerThatHasTheFolderOfAFormerDriverEnds) {
  options_.output_folder = root_.path() / "validations";
  options_.with_wait = true;
  options_.retry_interval = std::chrono::hours(1);
  const StatusFolder status(options_.output_folder);
  ASSERT_TRUE(status.Prepare(false));
  ASSERT_TRUE(status.Write(kDriverReady, "of another validator\n"));
  root_.Write("driver/etc/hostname", "what is left of it");
  root_.Write("host/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", "no library");
  Cluster nobody("/nonexistent");
  const auto done = ValidateDriver(options_, nobody, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().reason, kFormerDriverMounted);
  EXPECT_THAT(done.error().message, HasSubstr("has to start anew"));
  EXPECT_TRUE(*status.Has(kDriverReady));

  options_.with_wait = false;
  const auto reason = [&] {
    const auto driver = CheckContainerDriver(options_, {});
    return driver ? "" : driver.error().reason;
  };
  options_.host_root = "/other";
  EXPECT_EQ(reason(), "DriverLibraryNotFound") << "another root says nothing about it";
  options_.host_root = "/";
  EXPECT_EQ(reason(), kFormerDriverMounted);
  std::filesystem::remove_all(root_.path() / "host/run/nvidia/driver/usr");
  EXPECT_EQ(reason(), "DriverLibraryNotFound") << "the node has none yet";
  // The same folder, seen twice.
  std::filesystem::remove_all(root_.path() / "host/run/nvidia/driver");
  std::filesystem::create_symlink(root_.path() / "driver", root_.path() / "host/run/nvidia/driver");
  root_.Write("driver/usr/lib64/libnvidia-ml.so.1", "no library");
  EXPECT_NE(reason(), kFormerDriverMounted);
}

// Whose driver it is stays unknown while the API server is away; whether it works does not.
TEST_F(DriverTest, WithoutTheApiServerWhatWasKnownOfTheDriverStands) {
  root_.Write("driver/usr/lib64/libnvidia-ml.so.1", "no library");
  Program("driver/usr/bin/nvidia-smi", "#!/bin/sh\nexit 0\n");
  const StatusFolder status(options_.output_folder);
  ASSERT_TRUE(status.Prepare(false));
  ASSERT_TRUE(status.Write(kDriverReady, "of this driver\n"));
  Cluster cluster(root_
                      .Write("kubeconfig",
                             "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
                             "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]}")
                      .string());
  const auto unknown = ValidateDriver(options_, cluster, {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().reason, "OwnerUnknown");
  EXPECT_EQ(unknown.error().code, base::Code::kUnavailable);
  EXPECT_TRUE(*status.Has(kDriverReady));

  // One that does not work is none, whoever brings it.
  Program("driver/usr/bin/nvidia-smi", "#!/bin/sh\nexit 9\n");
  Cluster nobody("/nonexistent");
  EXPECT_EQ(ValidateDriver(options_, nobody, {}).error().reason, "NvidiaSmiFailed");
  EXPECT_FALSE(*status.Has(kDriverReady));
}

// Where NVML cannot be used, the program that the toolkit brings decides (validator.md section 4).
TEST_F(DriverTest, TheToolkitBringsAProgramThatWorks) {
  if (nvml::Library::Open({"/"})) GTEST_SKIP() << "this computer has a driver of its own";
  const StatusFolder status(options_.output_folder);
  ASSERT_TRUE(status.Prepare(false));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (root_.path() / "bin").c_str(), 1);
  EXPECT_EQ(ValidateToolkit(options_, {}).error().reason, "DriverNotInjected");
  Program("bin/nvidia-smi", "#!/bin/sh\nexit 0\n");
  const auto works = ValidateToolkit(options_, {});
  EXPECT_TRUE(works) << works.error().ToString();
  EXPECT_TRUE(*status.Has("toolkit-ready"));
  Program("bin/nvidia-smi", "#!/bin/sh\nexit 9\n");
  const auto broken = ValidateToolkit(options_, {});
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().reason, "NvidiaSmiFailed");
  EXPECT_THAT(broken.error().message, HasSubstr("exit status 9; NVML: "));
  EXPECT_FALSE(*status.Has("toolkit-ready"));
}

TEST_F(DriverTest, AModuleComponentWritesItsFile) {  // validator.md section 4
  root_.Write("proc/modules", "nvidia_fs 1 0 - Live 0x0\n");
  ASSERT_TRUE(StatusFolder(options_.output_folder).Prepare(false));
  EXPECT_TRUE(ValidateModule(options_, "nvidia-fs", {}));
  EXPECT_TRUE(*StatusFolder(options_.output_folder).Has("nvidia-fs-ready"));
  const auto missing = ValidateModule(options_, "gdrcopy", {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().reason, "ModuleNotLoaded");
  EXPECT_FALSE(*StatusFolder(options_.output_folder).Has("gdrcopy-ready"));
}

TEST_F(DriverTest, TheMemoryModuleIsLoadedWhereOnlyTheDriverIs) {
  const auto proc = root_.path() / "proc";
  const host::Root host(root_.path() / "host");
  root_.Write("proc/sys/kernel/osrelease", "6.8.0-test\n");
  root_.Write("proc/devices", "Character devices:\n  1 mem\n");
  EXPECT_EQ(LoadMemoryModule(host, proc), false) << "no driver";
  root_.Write("proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n");
  EXPECT_EQ(LoadMemoryModule(host, proc), false) << "it is loaded";
  // It is looked for on the host, in the modules of the running kernel.
  for (const auto* driver : {"nvidia", "nvidia-frontend"}) {
    root_.Write("proc/devices", std::string("Character devices:\n195 ") + driver + "\n");
    const auto missing = LoadMemoryModule(host, proc);
    ASSERT_FALSE(missing) << driver;
    EXPECT_EQ(missing.error().reason, "NoKernelModules");
    EXPECT_THAT(missing.error().message, HasSubstr("6.8.0-test"));
  }
}

TEST_F(DriverTest, LinksNameTheHostsPathAndStaleOnesAreCorrected) {  // section 3.4, weakness 17
  const auto dev = root_.path() / "driver/dev";
  const auto made = host::EnsureCharacterDevice(dev / "nvidia0", {1, 3});
  if (!made && made.error().code == base::Code::kDenied) GTEST_SKIP() << "needs CAP_MKNOD";
  ASSERT_TRUE(host::EnsureCharacterDevice(dev / "nvidiactl", {1, 5}));
  ASSERT_TRUE(host::EnsureCharacterDevice(dev / "nvidia-uvm", {1, 7}));
  const auto links = options_.device_links_folder;
  std::filesystem::create_directories(links);
  std::filesystem::create_symlink("/old/dev/nvidia0", links / "1:3");
  std::filesystem::create_symlink("../nvidiactl", links / "1:5");
  EXPECT_EQ(*host::LinkDevices(dev, "/run/nvidia/driver/dev", links), 3);
  EXPECT_EQ(std::filesystem::read_symlink(links / "1:3"), "/run/nvidia/driver/dev/nvidia0");
  EXPECT_EQ(std::filesystem::read_symlink(links / "1:5"), "../nvidiactl");
  EXPECT_EQ(std::filesystem::read_symlink(links / "1:7"), "/run/nvidia/driver/dev/nvidia-uvm");
}

TEST(Repeat, WithoutWaitItTriesOnce) {
  Options options;
  int tries = 0;
  EXPECT_FALSE(Repeat(options, {}, {}, [&]() -> base::Status {
    ++tries;
    return base::Fail(base::Unavailable("NotYet", "not yet"));
  }));
  EXPECT_EQ(tries, 1);
}

TEST(Repeat, AChangeInTheFolderEndsTheWait) {
  const TemporaryFolder root;
  Options options;
  options.with_wait = true;
  options.retry_interval = std::chrono::hours(1);  // only the event can end it
  int tries = 0;
  const auto done = Repeat(options, {.folders = {root.path()}}, {}, [&]() -> base::Status {
    if (++tries == 1) {
      root.Write("ready", "");
      return base::Fail(base::Unavailable("NotYet", "not yet"));
    }
    return {};
  });
  EXPECT_TRUE(done);
}

TEST(Repeat, WrongConfigurationEndsTheWait) {
  Options options;
  options.with_wait = true;
  EXPECT_FALSE(Repeat(options, {}, {}, []() -> base::Status {
    return base::Fail(base::Invalid("Wrong", "wrong"));
  }));
}

TEST(Workload, ChoosesMigBeforeWholeGpus) {  // validator.md section 5.2, weaknesses 11 and 12
  EXPECT_EQ(ChooseGpuResource({{"cpu", "8"}, {"nvidia.com/gpu", "8"}}), "nvidia.com/gpu");
  EXPECT_EQ(ChooseGpuResource({{"nvidia.com/gpu", "0"}, {"nvidia.com/gpu.shared", "4"}}),
            "nvidia.com/gpu.shared");
  EXPECT_EQ(ChooseGpuResource({{"nvidia.com/gpu", "1"},
                               {"nvidia.com/mig-2g.20gb", "1"},
                               {"nvidia.com/mig-1g.10gb", "7"}}),
            "nvidia.com/mig-1g.10gb");
  EXPECT_EQ(ChooseGpuResource({{"nvidia.com/gpumem", "100"}}), "");
  EXPECT_EQ(ChooseGpuResource({}), "");
}

Options PodOptions() {
  Options options;
  options.node_name = "node-a";
  options.namespace_name = "gpu-operator";
  options.image = "docker.io/pitcrew/pitcrew:v26.7.0";
  options.image_pull_policy = "IfNotPresent";
  options.image_pull_secrets = {"secret1", "secret2"};
  options.runtime_class = "nvidia";
  return options;
}

const char* const kDaemonSetYaml = R"(
metadata:
  ownerReferences: [{apiVersion: nvidia.com/v1, kind: ClusterPolicy, name: cluster-policy, uid: u}]
spec: {template: {spec: {tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}}}
)";

TEST(Workload, CudaPod) {  // validator.md section 5.2, operand-manifests.md section 8
  const auto pod =
      MakeWorkloadPod(Workload::kCuda, PodOptions(), *codec::ParseYaml(kDaemonSetYaml), "");
  EXPECT_EQ(pod, *codec::ParseYaml(R"(
apiVersion: v1
kind: Pod
metadata:
  generateName: nvidia-cuda-validator-
  namespace: gpu-operator
  labels: {app: nvidia-cuda-validator}
  annotations: {nvidia.cdi.k8s.io/container.cuda-validation: management.nvidia.com/gpu=all}
  ownerReferences: [{apiVersion: nvidia.com/v1, kind: ClusterPolicy, name: cluster-policy, uid: u}]
spec:
  nodeName: node-a
  restartPolicy: OnFailure
  serviceAccountName: nvidia-operator-validator
  runtimeClassName: nvidia
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  imagePullSecrets: [{name: secret1}, {name: secret2}]
  initContainers:
  - name: cuda-validation
    image: docker.io/pitcrew/pitcrew:v26.7.0
    imagePullPolicy: IfNotPresent
    command: [sh, -c]
    args: [vectorAdd]
    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]
    securityContext: {privileged: true}
  containers:
  - name: nvidia-cuda-validator
    image: docker.io/pitcrew/pitcrew:v26.7.0
    imagePullPolicy: IfNotPresent
    command: [sh, -c]
    args: [echo cuda workload validation is successful]
    securityContext: {privileged: true, readOnlyRootFilesystem: true}
)"));
}

TEST(Workload, PluginPod) {  // validator.md section 5.2, operand-manifests.md section 8
  Options options = PodOptions();
  options.image_pull_policy.clear();
  options.image_pull_secrets.clear();
  options.runtime_class.clear();
  const auto pod = MakeWorkloadPod(Workload::kPlugin, options, Json::object(), "nvidia.com/gpu");
  EXPECT_EQ(pod, *codec::ParseYaml(R"(
apiVersion: v1
kind: Pod
metadata:
  generateName: nvidia-device-plugin-validator-
  namespace: gpu-operator
  labels: {app: nvidia-device-plugin-validator}
spec:
  nodeName: node-a
  restartPolicy: OnFailure
  serviceAccountName: nvidia-operator-validator
  initContainers:
  - name: plugin-validation
    image: docker.io/pitcrew/pitcrew:v26.7.0
    command: [sh, -c]
    args: [vectorAdd]
    securityContext: {allowPrivilegeEscalation: false}
    resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}
  containers:
  - name: nvidia-device-plugin-validator
    image: docker.io/pitcrew/pitcrew:v26.7.0
    command: [sh, -c]
    args: [echo device-plugin workload validation is successful]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true}
)"));
}

TEST(Workload, TellsWhatHoldsAPodUp) {
  const auto progress = ProgressOf(*codec::ParseYaml(R"(
metadata: {name: p}
status:
  phase: Pending
  initContainerStatuses:
  - name: cuda-validation
    state: {waiting: {reason: ImagePullBackOff, message: no such image}}
  containerStatuses:
  - name: nvidia-cuda-validator
    state: {waiting: {reason: PodInitializing}}
)"));
  EXPECT_EQ(progress.phase, "Pending");
  EXPECT_EQ(progress.detail, "cuda-validation: ImagePullBackOff: no such image");
  const auto crashed = ProgressOf(*codec::ParseYaml(R"(
status:
  phase: Pending
  initContainerStatuses:
  - name: cuda-validation
    state: {waiting: {reason: CrashLoopBackOff}}
    lastState: {terminated: {exitCode: 4}}
)"));
  EXPECT_EQ(crashed.detail, "cuda-validation: ended with exit status 4");
  EXPECT_FALSE(crashed.succeeded);
}

// validator.md section 5: the wait is for the phase Succeeded, which the kubelet tells a second or
// two after the last container's end.
TEST(Workload, HasSucceededWhenAllItsContainersHaveEndedWell) {
  const auto pod = [](std::string_view main_state) {
    return *codec::ParseYaml(fmt::format(R"(
spec: {{initContainers: [{{name: cuda-validation}}], containers: [{{name: nvidia-cuda-validator}}]}}
status:
  phase: Running
  initContainerStatuses: [{{name: cuda-validation, state: {{terminated: {{exitCode: 0}}}}}}]
  containerStatuses: [{{name: nvidia-cuda-validator, state: {}}}]
)",
                                         main_state));
  };
  EXPECT_TRUE(ProgressOf(pod("{terminated: {exitCode: 0}}")).succeeded);
  EXPECT_FALSE(ProgressOf(pod("{terminated: {exitCode: 1}}")).succeeded);
  EXPECT_FALSE(ProgressOf(pod("{running: {}}")).succeeded);
  EXPECT_FALSE(ProgressOf(pod("{waiting: {reason: PodInitializing}}")).succeeded);
  EXPECT_TRUE(ProgressOf(*codec::ParseYaml("status: {phase: Succeeded}")).succeeded);
}

}  // namespace
}  // namespace pitcrew::node::validator

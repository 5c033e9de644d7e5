#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "cdi/format.h"
#include "shim/arguments.h"
#include "shim/config.h"
#include "shim/legacy_rules.h"
#include "shim/requests.h"
#include "shim/runtime.h"

namespace pitcrew::shim {
namespace {

using Names = std::vector<std::string>;

oci::Spec Spec(std::string_view text) {
  auto spec = oci::Spec::Parse(text);
  EXPECT_TRUE(spec) << spec.error().message;
  return *std::move(spec);
}

oci::Spec WithEnv(const std::vector<std::string>& env) {
  return Spec(codec::ToJsonText({{"process", {{"env", env}}}}));
}

Names Devices(const std::vector<std::string>& env, const Config& config = {}) {
  return FindRequests(WithEnv(env), config, {}).devices;
}

TEST(Arguments, BundleAndCreate) {
  RecordProperty("holds", "container-toolkit.md #103, #104, #119");
  const auto bundle = [](std::vector<std::string_view> words) {
    words.emplace_back("create");
    const auto parsed = ParseArguments(words);
    return parsed ? parsed->bundle.string() : parsed.error().reason;
  };
  for (const auto* form : {"-b", "--bundle", "-bundle", "---b"})
    EXPECT_EQ(bundle({form, "/x"}), "/x");
  for (const auto* form : {"-b=/x", "--bundle=/x", "-bundle=/x"}) EXPECT_EQ(bundle({form}), "/x");
  EXPECT_EQ(bundle({"-b=/foo/=bar"}), "/foo/=bar");
  EXPECT_EQ(bundle({"--not-bundle", "/x"}), "");
  EXPECT_EQ(bundle({"-b", "/x", "--bundle=/y"}), "/y");

  EXPECT_TRUE(ParseArguments({"-b", "create", "create"})->is_create);
  EXPECT_EQ(ParseArguments({"-b", "create", "create"})->bundle, "create");
  EXPECT_FALSE(ParseArguments({"--bundle", "create"})->is_create);
  EXPECT_FALSE(ParseArguments({"--bundle=create"})->is_create);
  EXPECT_EQ(ParseArguments({"create", "--bundle"}).error().reason, "MissingBundle");
  EXPECT_TRUE(ParseArguments({"run", "--bundle"}));

  const auto log = ParseArguments({"--log", "/l", "--log-format=json", "--debug", "create", "id"});
  EXPECT_EQ(log->log_file, "/l");
  EXPECT_TRUE(log->json_log);
  EXPECT_TRUE(log->debug);
  EXPECT_TRUE(ParseArguments({"--version"})->wants_version);
}

// container-toolkit.md 3.2, #1, #4.
TEST(RuntimeConfig, DefaultsAndOverrides) {
  RecordProperty("holds", "container-toolkit.md #4");
  const Config defaults;
  const auto config =
      ParseConfig("[nvidia-container-runtime]\ndebug = \"/x.log\"\nmode = \"csv\"\nunknown = 3\n",
                  "config.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->debug_log, "/x.log");
  EXPECT_EQ(config->mode, "csv");
  EXPECT_EQ(config->runtimes, (Names{"runc", "crun"}));
  EXPECT_EQ(config->default_kind, "nvidia.com/gpu");
  EXPECT_EQ(config->annotation_prefixes, (Names{"cdi.k8s.io/"}));
  EXPECT_EQ(config->spec_folders, defaults.spec_folders);
  EXPECT_TRUE(config->accept_env_when_unprivileged);
  EXPECT_FALSE(config->accept_devices_as_mounts);
  EXPECT_EQ(ParseConfig("swarm-resource = 5\n", "config.toml").error().message,
            "config.toml: swarm-resource must be a text, not 5");
}

TEST(RuntimeConfig, Location) {
  RecordProperty("holds", "container-toolkit.md #2, #3");
  ::setenv("XDG_CONFIG_HOME", "/xdg", 1);
  EXPECT_EQ(ConfigPath(""), "/xdg/nvidia-container-runtime/config.toml");
  ::setenv("NVIDIA_CTK_CONFIG_FILE_PATH", "/given.toml", 1);
  EXPECT_EQ(ConfigPath(""), "/given.toml");
  ::unsetenv("NVIDIA_CTK_CONFIG_FILE_PATH");
  ::unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(ConfigPath("/no/such/folder"), "/etc/nvidia-container-runtime/config.toml");
}

// 13 row 1 (a repeated id).
TEST(Requests, Environment) {
  RecordProperty("holds", "container-toolkit.md #108");
  EXPECT_EQ(Devices({}), Names{});
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES="}), Names{});
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES=void"}), Names{});
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES=0,void"}), Names{});
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES=none"}), Names{""});
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES=all"}), Names{"all"});
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES= 0, 1,,0 "}), (Names{"0", "1"}));
  EXPECT_EQ(Devices({"CUDA_VERSION=9.0"}), Names{"all"});
  EXPECT_EQ(Devices({"CUDA_VERSION=9.0", "NVIDIA_REQUIRE_CUDA=cuda>=9.0"}), Names{});
  EXPECT_EQ(Devices({"CUDA_VERSION=9.0", "NVIDIA_VISIBLE_DEVICES="}), Names{});
  Config config;
  config.swarm_resources = {"A", "B", "C"};
  EXPECT_EQ(Devices({"C=2", "A=0,1", "NVIDIA_VISIBLE_DEVICES=9"}, config), (Names{"0", "1", "2"}));
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES=9"}, config), Names{"9"});
}

TEST(Requests, MountsBeatTheEnvironmentWhenAccepted) {
  RecordProperty("holds", "container-toolkit.md #109, #110");
  const auto spec = Spec(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=9"]},"mounts":[
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices/GPU-1"},
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices"},
    {"source":"/dev/zero","destination":"/var/run/nvidia-container-devices/GPU-2"},
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices/cdi/nvidia.com/gpu/0"},
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices/cdi/nvidia.com/gpu=1"},
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices/cdi/broken"},
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices/imex/3"},
    {"source":"/dev/null","destination":"/var/run/nvidia-container-devices/a/b"}]})");
  Config config;
  EXPECT_EQ(FindRequests(spec, config, {}).devices, Names{"9"});
  config.accept_devices_as_mounts = true;
  const auto requests = FindRequests(spec, config, {});
  EXPECT_EQ(requests.devices, (Names{"GPU-1", "nvidia.com/gpu=0", "nvidia.com/gpu=1", "a/b"}));
  EXPECT_EQ(requests.warnings.size(), 1U);
}

// Privileged means CAP_SYS_ADMIN in the bounding set.
TEST(Requests, TheEnvironmentOfUnprivilegedContainersCanBeRefused) {
  RecordProperty("holds", "container-toolkit.md #110");
  Config config;
  config.accept_env_when_unprivileged = false;
  EXPECT_EQ(Devices({"NVIDIA_VISIBLE_DEVICES=0"}, config), Names{});
  const auto privileged = Spec(
      R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=0"],"capabilities":{"bounding":["CAP_SYS_ADMIN"]}}})");
  EXPECT_EQ(FindRequests(privileged, config, {}).devices, Names{"0"});
}

TEST(Requests, AnnotationsInOrderOfTheirKeys) {
  RecordProperty("holds", "container-toolkit.md #111, #112");
  const auto spec = Spec(R"({"annotations":{"cdi.k8s.io/z":"v.com/gpu=2","other":"x",
    "cdi.k8s.io/a":"example.com/device,v.com/gpu=1"},"process":{"env":["NVIDIA_VISIBLE_DEVICES=9"]}})");
  const auto requests = FindRequests(spec, {}, {"cdi.k8s.io/"});
  EXPECT_EQ(requests.devices, (Names{"example.com/device", "v.com/gpu=1", "v.com/gpu=2"}));
  EXPECT_EQ(QualifiedNames(requests.devices, "nvidia.com/gpu"),
            (Names{"nvidia.com/gpu=example.com/device", "v.com/gpu=1", "v.com/gpu=2"}));
}

// container-toolkit.md 7.2, #98, #99, #113.
TEST(Requests, Modes) {
  RecordProperty("holds", "container-toolkit.md #98, #99, #113, #115");
  const auto names = [](const std::vector<std::string>& env, std::string_view mode) -> Names {
    Config config;
    config.default_kind = "management.nvidia.com/gpu";
    const auto resolution = ResolveRequests(WithEnv(env), config, mode);
    return resolution ? resolution->names : Names{resolution.error().reason};
  };
  const Names qualified = {"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0"};
  EXPECT_EQ(names(qualified, "auto"), Names{"nvidia.com/gpu=0"});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0,1"}, "auto"),
            Names{"MixedDeviceKinds"});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=runtime.nvidia.com/gpu=0,nvidia.com/gpu=1"}, "cdi"),
            Names{"MixedDeviceKinds"});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=all"}, "auto"), Names{"runtime.nvidia.com/gpu=all"});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=all"}, "legacy"), Names{"runtime.nvidia.com/gpu=all"});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=all"}, "cdi"), Names{"management.nvidia.com/gpu=all"});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=none"}, "cdi"), Names{"management.nvidia.com/gpu=none"});
  EXPECT_EQ(names({}, "cdi"), Names{});
  EXPECT_EQ(names({"NVIDIA_VISIBLE_DEVICES=0"}, "csv"), Names{"runtime.nvidia.com/gpu=0"});
  EXPECT_EQ(names({}, "csv"), Names{});
  EXPECT_EQ(names({}, "fancy"), Names{"InvalidRuntimeMode"});
}

class EditSpecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("pitcrew-shim-edit-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    cdi::Spec spec{"", "management.nvidia.com/gpu", {}, {{"all", {}, {}}}, {}};
    spec.devices[0].edits.env = {"GIVEN=all"};
    spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void"};
    ASSERT_TRUE(cdi::WriteSpecFile(folder_ / "management.yaml", spec));
    config_.default_kind = "management.nvidia.com/gpu";
    config_.spec_folders = {folder_};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  Config config_;
  Report report_;
};

TEST_F(EditSpecTest, InjectsWhatIsAskedFor) {
  auto spec = WithEnv({"NVIDIA_VISIBLE_DEVICES=all", "X=1"});
  EXPECT_EQ(EditSpec(spec, config_, "cdi", report_), true);
  EXPECT_EQ(spec.env(), (Names{"NVIDIA_VISIBLE_DEVICES=void", "X=1", "GIVEN=all"}));
}

// container-toolkit.md 13 row 46: nothing is rewritten when nothing is asked for.
TEST_F(EditSpecTest, NothingAskedForNothingChanged) {
  auto spec = WithEnv({"X=1"});
  EXPECT_EQ(EditSpec(spec, config_, "cdi", report_), false);
  auto none = WithEnv({"NVIDIA_VISIBLE_DEVICES=none"});
  EXPECT_EQ(EditSpec(none, config_, "cdi", report_), false);
}

TEST_F(EditSpecTest, NvidiasPrestartHooksAreTakenOut) {
  RecordProperty("holds", "container-toolkit.md #100, #102");
  auto spec = Spec(R"({"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-runtime-hook"},
    {"path":"/x/nvidia-container-toolkit"},{"path":"/other"}]}})");
  EXPECT_EQ(EditSpec(spec, config_, "cdi", report_), true);
  EXPECT_EQ(spec.json()["hooks"], *codec::ParseJson(R"({"prestart":[{"path":"/other"}]})"));
}

// The specification as the toolkit writes it: GPU 0 for an image of today, GPU 1 for an older one.
class LegacyTest : public EditSpecTest {
 protected:
  void SetUp() override {
    EditSpecTest::SetUp();
    cdi::Spec spec{"", "runtime.nvidia.com/gpu", {}, {}, {}};
    spec.annotations = {{"runtime.nvidia.com/cuda-version", "12.4"}};
    for (const auto& [name, capability] : {std::pair("0", "9.0"), std::pair("1", "7.0")}) {
      spec.devices.push_back({name, {{"runtime.nvidia.com/compute-capability", capability}}, {}});
    }
    spec.devices.push_back({"all", {}, {}});
    for (auto& device : spec.devices) device.edits.env = {"GIVEN=" + device.name};
    ASSERT_TRUE(cdi::WriteSpecFile(folder_ / "runtime.yaml", spec));
  }
  std::string Reason(const std::vector<std::string>& env, std::string_view mode = "legacy") {
    auto spec = WithEnv(env);
    const auto edited = EditSpec(spec, config_, mode, report_);
    return edited ? "" : edited.error().reason;
  }
};

TEST_F(LegacyTest, RequirementsOfTheImageAreHeldAgainstEachGpu) {
  RecordProperty("holds", "container-toolkit.md #118");
  const std::string first = "NVIDIA_VISIBLE_DEVICES=0";
  EXPECT_EQ(Reason({first, "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}), "");
  EXPECT_EQ(Reason({first, "NVIDIA_REQUIRE_CUDA=cuda>=13.0"}), "RequirementNotMet");
  EXPECT_EQ(Reason({first, "NVIDIA_REQUIRE_CUDA=cuda>=13.0", "NVIDIA_DISABLE_REQUIRE=true"}), "");
  EXPECT_EQ(Reason({first, "NVIDIA_REQUIRE_ARCH=arch>=8.0"}), "");
  EXPECT_EQ(Reason({"NVIDIA_VISIBLE_DEVICES=1", "NVIDIA_REQUIRE_ARCH=arch>=8.0"}),
            "RequirementNotMet");
  EXPECT_EQ(Reason({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_ARCH=arch>=8.0"}),
            "RequirementNotMet");
  EXPECT_EQ(Reason({first, "NVIDIA_REQUIRE_X=nonsense"}), "InvalidRequirement");
  // Modes with CDI do not look at them, as upstream's.
  EXPECT_EQ(Reason({first, "NVIDIA_REQUIRE_CUDA=cuda>=13.0"}, "jit-cdi"), "");
  // Without a GPU there is nothing to hold them against.
  EXPECT_EQ(Reason({"NVIDIA_REQUIRE_CUDA=cuda>=13.0"}), "");
}

// Of "none" upstream's mode jit-cdi makes a device without anything but a variable, and the
// driver's files come with it as with any.
TEST_F(LegacyTest, NoneGivesTheDriversFilesAndNoDevice) {
  RecordProperty("holds", "container-toolkit.md #72, #113");
  const auto text = base::ReadFile(folder_ / "runtime.yaml");
  auto read = cdi::ParseSpec(text.value_or(""), "runtime.yaml");
  ASSERT_TRUE(read);
  read->edits.env = {"FILES=all"};
  ASSERT_TRUE(cdi::WriteSpecFile(folder_ / "runtime.yaml", *read));
  const auto variables = [&](const std::string& devices, std::string_view mode) {
    auto spec = WithEnv({"NVIDIA_VISIBLE_DEVICES=" + devices});
    const auto edited = EditSpec(spec, config_, mode, report_);
    if (!edited) return Names{edited.error().reason};
    Names found = spec.env();
    found.erase(found.begin());
    return found;
  };
  for (const char* mode : {"auto", "jit-cdi", "legacy", "csv"}) {
    EXPECT_EQ(variables("none", mode), (Names{"NVCT_EMPTY_DEVICE=", "FILES=all"})) << mode;
    EXPECT_EQ(variables("0,none", mode), (Names{"NVCT_EMPTY_DEVICE=", "FILES=all"})) << mode;
  }
  EXPECT_EQ(variables("runtime.nvidia.com/gpu=none", "cdi"),
            (Names{"NVCT_EMPTY_DEVICE=", "FILES=all"}));
  EXPECT_EQ(variables("runtime.nvidia.com/gpu=none,runtime.nvidia.com/gpu=0", "cdi"),
            (Names{"NVCT_EMPTY_DEVICE=", "FILES=all"}));
  EXPECT_EQ(variables("runtime.nvidia.com/gpu=0,runtime.nvidia.com/gpu=all", "cdi"),
            (Names{"FILES=all", "GIVEN=all"}));
  // The driver is held against the image's requirements; of GPUs there is nothing to say.
  const std::string none = "NVIDIA_VISIBLE_DEVICES=none";
  EXPECT_EQ(Reason({none, "NVIDIA_REQUIRE_CUDA=cuda>=13.0"}), "RequirementNotMet");
  EXPECT_EQ(Reason({none, "NVIDIA_REQUIRE_ARCH=arch>=99.0"}), "");
  // Where nothing is prepared upstream has no driver to ask.
  std::filesystem::remove(folder_ / "runtime.yaml");
  EXPECT_EQ(Reason({none}, "auto"), "UnresolvableCdiDevices");
  config_.installed = true;
  config_.driver_module = folder_ / "no-such-module";
  EXPECT_EQ(Reason({none}, "auto"), "");
}

// Prepared devices by their full names are prepared ones (internal/modifier/cdi.go): what is taken
// away from those, and devices beside GPUs.
TEST_F(LegacyTest, TheKindOfPreparedDevicesIsTheirMode) {
  config_.driver_root = folder_;
  const std::string named = "NVIDIA_VISIBLE_DEVICES=runtime.nvidia.com/gpu=0";
  EXPECT_EQ(Reason({named, "NVIDIA_IMEX_CHANNELS=7"}, "cdi"), "NoImexChannel");
  EXPECT_EQ(Reason({named, "NVIDIA_IMEX_CHANNELS=7"}, "auto"), "NoImexChannel");
  EXPECT_EQ(Reason({named}, "cdi"), "");
}

TEST_F(LegacyTest, CapabilitiesHaveToBeSupported) {
  RecordProperty("holds", "container-toolkit.md #123, #125");
  const std::string first = "NVIDIA_VISIBLE_DEVICES=0";
  for (const char* well : {"", "all", "video,display", "compute, utility"}) {
    EXPECT_EQ(Reason({first, std::string("NVIDIA_DRIVER_CAPABILITIES=") + well}), "") << well;
  }
  EXPECT_EQ(Reason({first, "NVIDIA_DRIVER_CAPABILITIES=compute,magic"}), "UnsupportedCapabilities");
  config_.supported_capabilities = {"video", "display"};
  EXPECT_EQ(Reason({first, "NVIDIA_DRIVER_CAPABILITIES=compute"}), "UnsupportedCapabilities");
  EXPECT_EQ(Reason({first, "NVIDIA_DRIVER_CAPABILITIES=all"}), "");
}

TEST_F(LegacyTest, MigIsConfiguredByPrivilegedContainersOnly) {
  RecordProperty("holds", "container-toolkit.md #124");
  for (const char* variable : {"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"}) {
    const std::string all = std::string(variable) + "=all";
    EXPECT_EQ(Reason({"NVIDIA_VISIBLE_DEVICES=0", all}), "MigNeedsPrivileges");
    EXPECT_EQ(Reason({all}), "");
    auto spec = Spec(codec::ToJsonText({{"process",
                                         {{"env", {"NVIDIA_VISIBLE_DEVICES=0", all}},
                                          {"capabilities", {{"bounding", {"CAP_SYS_ADMIN"}}}}}}}));
    EXPECT_TRUE(EditSpec(spec, config_, "legacy", report_));
  }
}

TEST_F(LegacyTest, WhoMayConfigureMigGetsTheDevicesForIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "device nodes need root";
  config_.driver_root = folder_ / "driver";
  const auto caps = config_.driver_root / "dev/nvidia-caps";
  std::filesystem::create_directories(caps);
  ASSERT_EQ(::mknod((caps / "nvidia-cap7").c_str(), S_IFCHR | 0444, ::makedev(236, 7)), 0);
  const auto proc = folder_ / "proc";
  ASSERT_TRUE(base::WriteFileAtomically(proc / "driver/nvidia-caps/mig-minors",
                                        "config 7\nmonitor 8\ngpu0/gi0/access 9\n"));
  std::vector<std::string> warnings;
  const auto paths = [&](const std::vector<std::string>& env) {
    warnings.clear();
    Names found;
    for (const auto& node : MigControlEdits(WithEnv(env), config_, warnings, proc).device_nodes) {
      EXPECT_EQ(node.host_path, config_.driver_root.string() + node.path);
      found.push_back(node.path);
    }
    return found;
  };
  EXPECT_EQ(paths({"NVIDIA_MIG_CONFIG_DEVICES=all"}), Names{"/dev/nvidia-caps/nvidia-cap7"});
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(paths({"NVIDIA_MIG_CONFIG_DEVICES=none"}), Names{});
  EXPECT_EQ(paths({"NVIDIA_MIG_CONFIG_DEVICES="}), Names{});
  EXPECT_TRUE(warnings.empty());
  // The kernel lists it, and nobody has made the node.
  EXPECT_EQ(paths({"NVIDIA_MIG_MONITOR_DEVICES=0"}), Names{});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("nvidia-cap8"), std::string::npos);
  std::filesystem::remove_all(proc);
  EXPECT_EQ(paths({"NVIDIA_MIG_CONFIG_DEVICES=all"}), Names{});
  EXPECT_EQ(warnings.size(), 1U);
}

// Upstream looks for them only where devices are asked for (internal/modifier/cdi.go).
TEST_F(LegacyTest, DevicesBesideGpusAreThereWhereGpusAreAskedFor) {
  RecordProperty("holds", "container-toolkit.md #114, #116");
  const std::string channel = "NVIDIA_IMEX_CHANNELS=7";
  config_.driver_root = folder_;
  for (const char* mode : {"jit-cdi", "legacy"}) EXPECT_EQ(Reason({channel}, mode), "") << mode;
  EXPECT_EQ(Reason({channel, "NVIDIA_VISIBLE_DEVICES=0"}, "jit-cdi"), "NoImexChannel");
  EXPECT_EQ(Reason({channel, "NVIDIA_VISIBLE_DEVICES=none"}, "jit-cdi"), "NoImexChannel");
  EXPECT_EQ(Reason({channel, "NVIDIA_VISIBLE_DEVICES=0"}, "legacy"), "NoImexChannel");
  EXPECT_EQ(Reason({channel, "NVIDIA_VISIBLE_DEVICES=0"}, "csv"), "") << "it has none";
  EXPECT_EQ(Reason({channel}, "cdi"), "");
  // By their kind, too, but not where only other kinds are asked for, whatever the mode.
  const std::string prepared = "NVIDIA_VISIBLE_DEVICES=runtime.nvidia.com/gpu=0";
  const std::string other = "NVIDIA_VISIBLE_DEVICES=example.com/net=0";
  cdi::Spec spec{"", "example.com/net", {}, {{"0", {}, {}}}, {}};
  spec.devices[0].edits.env = {"NET=0"};
  ASSERT_TRUE(cdi::WriteSpecFile(folder_ / "net.yaml", spec));
  for (const char* mode : {"auto", "cdi", "jit-cdi"}) {
    EXPECT_EQ(Reason({channel, prepared}, mode), "NoImexChannel") << mode;
    EXPECT_EQ(Reason({channel, other}, mode), "") << mode;
  }
}

TEST(RuntimeConfig, CapabilitiesAndFeatures) {
  RecordProperty("holds", "container-toolkit.md #127");
  const auto all = ParseConfig("supported-driver-capabilities = \"all\"\n", "config.toml");
  EXPECT_EQ(all->supported_capabilities, Config().supported_capabilities);
  EXPECT_EQ(ParseConfig("supported-driver-capabilities = \"video,display\"\n", "config.toml")
                ->supported_capabilities,
            (Names{"video", "display"}));
  const auto unknown = ParseConfig("supported-driver-capabilities = \"magic\"\n", "config.toml");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().reason, "InvalidConfig");
  const auto config = ParseConfig(
      "disable-require = true\n[features]\nignore-imex-channel-requests = true\n"
      "[nvidia-container-cli]\nroot = \"/run/nvidia/driver\"\n",
      "config.toml");
  EXPECT_TRUE(config->disable_require);
  EXPECT_TRUE(config->ignore_imex_channels);
  EXPECT_EQ(config->driver_root, "/run/nvidia/driver");
}

TEST_F(EditSpecTest, AnUnknownDeviceIsAnErrorThatNamesItAndTheFolders) {
  auto spec = WithEnv({"NVIDIA_VISIBLE_DEVICES=GPU-7"});
  const auto edited = EditSpec(spec, config_, "cdi", report_);
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().reason, "UnresolvableCdiDevices");
  EXPECT_NE(edited.error().message.find("management.nvidia.com/gpu=GPU-7"), std::string::npos);
  EXPECT_NE(edited.error().message.find(folder_.string()), std::string::npos);
}

// Upstream's wrapper leaves the runtime out (container-toolkit.md 4.7): an image that asks for all
// GPUs starts on a node that has none yet, and on one whose driver has gone.
TEST_F(EditSpecTest, WithoutADriverAnInstalledRuntimeLeavesContainersAsTheyAre) {
  const auto edited = [&](const std::string& devices) {
    auto spec = WithEnv({"NVIDIA_VISIBLE_DEVICES=" + devices});
    const auto before = spec.json();
    const auto changed = EditSpec(spec, config_, "cdi", report_);
    if (!changed) return changed.error().reason;
    EXPECT_EQ(*changed, spec.json() != before);
    return std::string(*changed ? "changed" : "as it was");
  };
  EXPECT_EQ(edited("GPU-7"), "UnresolvableCdiDevices") << "no wrapper before a package's runtime";
  config_.installed = true;
  config_.driver_module = folder_;
  EXPECT_EQ(edited("GPU-7"), "UnresolvableCdiDevices") << "the driver is there";
  config_.driver_module = folder_ / "no-such-module";
  EXPECT_EQ(edited("GPU-7"), "as it was");
  EXPECT_EQ(edited("management.nvidia.com/gpu=GPU-7"), "UnresolvableCdiDevices");
  // A simulated driver, or a Tegra system's.
  EXPECT_EQ(edited("all"), "changed");
  cdi::Spec spec{"", "management.nvidia.com/gpu", {}, {{"all", {}, {}}}, {}};
  spec.devices[0].edits.mounts = {{"/run/nvidia/driver/gone", "/gone", {"ro"}, ""}};
  ASSERT_TRUE(cdi::WriteSpecFile(folder_ / "management.yaml", spec));
  EXPECT_EQ(edited("all"), "as it was");
  config_.driver_module = folder_;
  EXPECT_EQ(edited("all"), "changed");
}

TEST(RuntimeConfig, TheToolkitsOwnFileTellsThatItInstalledTheProgram) {
  EXPECT_FALSE(ParseConfig("", "config.toml")->installed);
  EXPECT_TRUE(ParseConfig("", "config.toml", "/usr/local/nvidia/toolkit")->installed);
}

// container-toolkit.md 7.1 step 4.
TEST(LowLevelRuntime, FirstThatCanBeExecuted) {
  EXPECT_EQ(FindLowLevelRuntime({"/no/such/runtime", "/bin/sh"}), "/bin/sh");
  EXPECT_TRUE(FindLowLevelRuntime({"sh"}));
  EXPECT_EQ(FindLowLevelRuntime({"/no/such/runtime", "no-such-runtime"}).error().reason,
            "LowLevelRuntimeNotFound");
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  EXPECT_EQ(FindLowLevelRuntime({self, "/bin/sh"}), "/bin/sh");
}

// An image's text forges no line of a log.
TEST(ReportTest, ControlCharactersAreShown) {
  EXPECT_EQ(OnOneLine("a\nlevel=error\x1b[2J\x7f \xc3\xa9"),
            "a\\x0alevel=error\\x1b[2J\\x7f \xc3\xa9");
}

// As many names as a pod's definition has room for.
TEST(Requests, AHundredThousandNamesAreAnsweredAtOnce) {
  std::string value;
  for (int i = 0; i < 150'000; ++i) value += std::to_string(i) + ",";
  Config config;
  config.mode = "cdi";
  config.spec_folders = {"/no/such/folder"};
  auto spec = WithEnv({"NVIDIA_VISIBLE_DEVICES=" + value});
  const auto edited = EditSpec(spec, config, "", Report());
  ASSERT_FALSE(edited);
  EXPECT_LT(edited.error().message.size(), 1000u);
  EXPECT_NE(edited.error().message.find("and 149984 more"), std::string::npos)
      << edited.error().message;
  // Of two kinds that do not go together.
  auto mixed = WithEnv({"NVIDIA_VISIBLE_DEVICES=runtime.nvidia.com/gpu=0," + value});
  const auto refused = EditSpec(mixed, config, "", Report());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "MixedDeviceKinds");
  EXPECT_LT(refused.error().message.size(), 1500u);
}

}  // namespace
}  // namespace pitcrew::shim

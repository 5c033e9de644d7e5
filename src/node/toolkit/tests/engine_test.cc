#include "node/toolkit/engine.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "codec/toml.h"
#include "node/toolkit/command.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/containerd.h"
#include "node/toolkit/installation.h"
#include "node/toolkit/pid_file.h"
#include "tests/support/kill_at_change.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using namespace std::chrono_literals;

TEST(Runtimes, NamesAndDefault) {
  RecordProperty("holds", "container-toolkit.md #30");
  const auto names = [](const std::string& name, bool set_as_default) {
    EngineOptions options;
    options.runtime_name = name;
    options.set_as_default = set_as_default;
    Names all;
    for (const auto& runtime : RuntimesFor(options, "/t")) {
      all.push_back(runtime.name + (runtime.is_default ? "*" : "") + " " + runtime.path);
    }
    return all;
  };
  const std::string program = "/t/nvidia-container-runtime";
  EXPECT_EQ(names("nvidia", true), (Names{"nvidia* " + program, "nvidia-cdi " + program + ".cdi",
                                          "nvidia-legacy " + program + ".legacy"}));
  EXPECT_EQ(names("NAME", true)[0], "NAME* " + program);
  EXPECT_EQ(names("nvidia-cdi", true),
            (Names{"nvidia " + program, "nvidia-cdi* " + program + ".cdi",
                   "nvidia-legacy " + program + ".legacy"}));
  EXPECT_EQ(names("", true)[0], "nvidia* " + program);
  EXPECT_EQ(names("nvidia", false)[0], "nvidia " + program);
}

// container-toolkit.md 4.6, #48.
TEST(Runtimes, LowLevelPrograms) {
  RecordProperty("holds", "container-toolkit.md #48");
  const auto programs = [](EngineKind kind, std::string_view text) {
    return LowLevelRuntimes(kind, *ParseEngineConfig(kind, text, "source"));
  };
  EXPECT_EQ(programs(EngineKind::kContainerd, ""), (Names{"runc", "crun"}));
  EXPECT_EQ(programs(EngineKind::kContainerd, R"(version = 3
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "special"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.special.options]
BinaryName = "/opt/special"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "/usr/bin/runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun.options]
BinaryName = ""
)"),
            (Names{"/opt/special", "/usr/bin/runc", "runc", "crun"}));
  EXPECT_EQ(programs(EngineKind::kContainerd, R"(version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/old/nvidia-container-runtime"
)"),
            (Names{"runc", "crun"}));
  EXPECT_EQ(programs(EngineKind::kCrio,
                     "[crio.runtime]\ndefault_runtime = \"crun\"\n"
                     "[crio.runtime.runtimes.crun]\nruntime_path = \"/c\"\n"),
            (Names{"/c", "runc", "crun"}));
  EXPECT_EQ(programs(EngineKind::kDocker, R"({"runtimes":{"runc":{"path":"/r"}}})"),
            (Names{"/r", "runc", "crun"}));
}

// Ours is the engine's default since the last start: the one before is the one whose program it
// runs.
TEST(Runtimes, TheDefaultBeforeOursIsKnownAgain) {
  EngineOptions options;
  options.own_program = "/t/nvidia-container-runtime";
  const auto programs = [&](EngineKind kind, std::string_view text) {
    options.kind = kind;
    return LowLevelRuntimes(
        kind, WithDefaultBeforeOurs(options, *ParseEngineConfig(kind, text, "source")));
  };
  const std::string crio =
      "[crio.runtime]\ndefault_runtime = \"nvidia\"\n"
      "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/t/nvidia-container-runtime\"\n"
      "[crio.runtime.runtimes.crun]\nruntime_path = \"/c\"\n"
      "[crio.runtime.runtimes.runc]\nruntime_path = \"/r\"\n";
  EXPECT_EQ(programs(EngineKind::kCrio, crio), (Names{"/r", "/c", "runc", "crun"}));
  options.earlier_low_level = "/c";
  EXPECT_EQ(programs(EngineKind::kCrio, crio), (Names{"/c", "/r", "runc", "crun"}));
  EXPECT_EQ(programs(EngineKind::kContainerd, R"(version = 3
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "nvidia-cdi"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia-cdi.options]
BinaryName = "/t/nvidia-container-runtime.cdi"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.special.options]
BinaryName = "/c"
)"),
            (Names{"/c", "runc", "crun"}));
  EXPECT_EQ(programs(EngineKind::kDocker,
                     R"({"default-runtime":"nvidia","runtimes":{"other":{"path":"/c"},
                         "nvidia":{"path":"/t/nvidia-container-runtime"}}})"),
            (Names{"/c", "runc", "crun"}));
  // It is gone, or the default is somebody else's NVIDIA runtime.
  options.earlier_low_level = "/gone";
  EXPECT_EQ(programs(EngineKind::kCrio, crio), (Names{"/r", "/c", "runc", "crun"}));
  options.earlier_low_level = "/c";
  options.own_program = "/elsewhere/nvidia-container-runtime";
  EXPECT_EQ(programs(EngineKind::kCrio, crio), (Names{"/r", "/c", "runc", "crun"}));
}

TEST(Runtimes, ProgramsOfTheNodeAreNoToolkits) {
  EngineOptions options;
  EXPECT_FALSE(IsOfTheNode(options, "/usr/bin/nvidia-container-runtime"));
  options.own_program = "/opt/t/toolkit/nvidia-container-runtime";
  EXPECT_TRUE(IsOfTheNode(options, "/usr/bin/nvidia-container-runtime"));
  for (const auto* program : {"", "/opt/t/toolkit/nvidia-container-runtime.cdi",
                              "/usr/local/nvidia/toolkit/nvidia-container-runtime"}) {
    EXPECT_FALSE(IsOfTheNode(options, program)) << program;
  }
}

// What people wrote around the line stays.
TEST(Imports, OnlyTheLineChanges) {
  RecordProperty("holds", "container-toolkit.md #41");
  const std::string pattern = "/etc/containerd/conf.d/*.toml";
  EXPECT_EQ(*AddImport("version = 2 # two\n\n[debug]\n", pattern),
            "imports = [\"/etc/containerd/conf.d/*.toml\"]\nversion = 2 # two\n\n[debug]\n");
  EXPECT_EQ(
      *AddImport("# mine\nversion = 2\nimports = [ \"/a.toml\" ] # why\n", pattern),
      "# mine\nversion = 2\nimports = [\"/a.toml\", \"/etc/containerd/conf.d/*.toml\"] # why\n");
  const auto lines =
      AddImport("imports = [\n  \"/a.toml\", # a\n]\nversion = 2\n[x]\ny = 1\n", pattern);
  EXPECT_EQ(
      *lines,
      "imports = [\"/a.toml\", \"/etc/containerd/conf.d/*.toml\"]\nversion = 2\n[x]\ny = 1\n");
}

TEST(Effective, TheDumpMustHaveOurRuntimes) {
  EngineOptions options;
  options.kind = EngineKind::kContainerd;
  options.config = "/etc/containerd/config.toml";
  options.drop_in = "/etc/containerd/conf.d/99-nvidia.toml";
  const auto runtimes = RuntimesFor(options, "/t");
  codec::Json dump = {{"version", 3}};
  const auto missing = CheckEffective(options, runtimes, dump);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().reason, "EngineConfigNotEffective");
  EXPECT_NE(missing.error().message.find("/etc/containerd/config.toml"), std::string::npos);
  for (const auto& runtime : runtimes) {
    dump["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"][runtime.name]
        ["options"]["BinaryName"] = runtime.path;
  }
  EXPECT_TRUE(CheckEffective(options, runtimes, dump));
}

class InFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("pitcrew-toolkit-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.kind = EngineKind::kContainerd;
    options_.config = folder_ / "config.toml";
    options_.drop_in = folder_ / "conf.d/99-nvidia.toml";
    options_.socket = folder_ / "none.sock";
    options_.restart = RestartMode::kNone;
    options_.host_root = folder_ / "host";
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
  EngineOptions options_;
};

// A failing command falls back to the file.
TEST_F(InFolder, SourcesAreTriedInOrder) {
  RecordProperty("holds", "container-toolkit.md #42");
  ASSERT_TRUE(base::WriteFileAtomically(
      options_.config,
      "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\n"
      "default_runtime_name = \"x\"\n"
      "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.x.options]\n"
      "BinaryName = \"/x\"\n"));
  options_.executable = "/no/such/containerd";
  EXPECT_EQ(LowLevelRuntimes(options_.kind, *ReadEngineConfig(options_)),
            (Names{"/x", "runc", "crun"}));
  options_.config_sources = {" file = " + (folder_ / "missing.toml").string() + " "};
  EXPECT_EQ(LowLevelRuntimes(options_.kind, *ReadEngineConfig(options_)), (Names{"runc", "crun"}));
  options_.config_sources = {"guess"};
  EXPECT_EQ(ReadEngineConfig(options_).error().reason, "BadUsage");
}

// The node's image has NVIDIA's runtime as the default, and only there says how containers are
// made.
TEST_F(InFolder, SettingsOfAnImagesOwnDefaultAreTaken) {
  RecordProperty("holds", "runtimes-and-distributions.md #12, #36");
  const auto root = [](const std::string& program) {
    return "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\n"
           "default_runtime_name = \"nvidia\"\n"
           "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia]\n"
           "base_runtime_spec = \"/s.json\"\n"
           "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia.options]\n"
           "BinaryName = \"" +
           program + "\"\nSystemdCgroup = true\n";
  };
  // What containerd has of itself.
  const std::string runc =
      "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc]\n"
      "runtime_type = \"io.containerd.runc.v2\"\nbase_runtime_spec = \"\"\n"
      "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]\n"
      "SystemdCgroup = false\n";
  options_.set_as_default = false;
  options_.own_program = "/t/nvidia-container-runtime";
  const auto planned = [&](const std::string& in_root, const std::string& in_dump) {
    const auto wanted = PlanSetup(options_, RuntimesFor(options_, "/t"),
                                  *ParseEngineConfig(options_.kind, root(in_dump) + runc, "dump"),
                                  {root(in_root), std::nullopt, std::nullopt});
    EXPECT_TRUE(wanted);
    const auto drop_in = std::ranges::find(*wanted, options_.drop_in, &FileContent::path);
    const auto config = *codec::ParseToml(drop_in->content.value_or(""), "drop-in");
    return codec::Find(config, {"plugins", "io.containerd.cri.v1.runtime", "containerd"})
        ->at("runtimes");
  };
  const std::string theirs = "/usr/bin/nvidia-container-runtime";
  const auto first = planned(theirs, theirs);
  for (const auto* name : {"nvidia", "nvidia-cdi", "nvidia-legacy"}) {
    EXPECT_EQ(first.at(name).at("base_runtime_spec"), "/s.json") << name;
    EXPECT_EQ(first.at(name).at("runtime_type"), "io.containerd.runc.v2") << name;
    EXPECT_EQ(first.at(name).at("options").at("SystemdCgroup"), true) << name;
  }
  EXPECT_EQ(first.at("nvidia").at("options").at("BinaryName"), options_.own_program);
  // Ours stands in the dump now.
  EXPECT_EQ(planned(theirs, options_.own_program), first);
  // In the root file too: then it says nothing of the node.
  EXPECT_EQ(planned(options_.own_program, options_.own_program)
                .at("nvidia")
                .at("options")
                .at("SystemdCgroup"),
            false);
}

// A broken configuration of somebody else is not touched.
TEST_F(InFolder, ABrokenTopLevelFileIsAnErrorAndStays) {
  ASSERT_TRUE(base::WriteFileAtomically(options_.config, "version = [\n"));
  options_.config_sources = {"file=" + (folder_ / "missing.toml").string()};
  const auto configured = ConfigureEngine(options_, *ReadEngineConfig(options_), "/t", folder_, {});
  ASSERT_FALSE(configured);
  EXPECT_NE(configured.error().message.find("config.toml:"), std::string::npos);
  EXPECT_EQ(*base::ReadFile(options_.config), "version = [\n");
  EXPECT_FALSE(fs::exists(options_.drop_in));
}

// Nothing stays but the installation.
TEST_F(InFolder, ConfigureAndRestore) {
  RecordProperty("holds", "container-toolkit.md #29, #34");
  options_.config_sources = {"file"};
  ASSERT_TRUE(ConfigureEngine(options_, *ReadEngineConfig(options_), "/t", folder_, {}));
  EXPECT_TRUE(fs::exists(options_.drop_in));
  EXPECT_FALSE(fs::exists(folder_ / "engine-change.json"));
  const auto written = fs::last_write_time(options_.drop_in);
  ASSERT_TRUE(ConfigureEngine(options_, *ReadEngineConfig(options_), "/t", folder_, {}));
  EXPECT_EQ(fs::last_write_time(options_.drop_in), written);
  ASSERT_TRUE(RestoreEngine(options_, "/t", folder_));
  EXPECT_FALSE(fs::exists(options_.drop_in));
  EXPECT_FALSE(fs::exists(options_.config));
}

// container-toolkit.md #28 and 13 row 16.
TEST_F(InFolder, OnlyOneToolkitRuns) {
  RecordProperty("holds", "container-toolkit.md #28, runtimes-and-distributions.md #62");
  const auto path = folder_ / "run/toolkit.pid";
  {
    const auto first = PidFile::Lock(path);
    ASSERT_TRUE(first) << first.error().message;
    const auto text = *base::ReadFile(path);
    EXPECT_EQ(text, std::to_string(::getpid()) + "\n");
    const auto second = PidFile::Lock(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().reason, "AlreadyRunning");
    EXPECT_EQ(*base::ReadFile(path), text);
  }
  EXPECT_FALSE(fs::exists(path));
}

// One that ends takes its file away while another one has it open already and waits for the lock.
TEST_F(InFolder, AFileThatIsGoneIsNoLock) {
  const auto path = folder_ / "run/toolkit.pid";
  const auto told = folder_ / "told";
  std::optional<PidFile> third;
  ASSERT_TRUE(test_support::InterruptAtCall(
      SYS_flock,
      [&] {
        const auto second = PidFile::Lock(path);
        (void)base::WriteFileAtomically(told, second ? "runs too" : second.error().reason);
      },
      [&] {
        fs::remove(path);
        auto locked = PidFile::Lock(path);
        ASSERT_TRUE(locked);
        third.emplace(*std::move(locked));
      }));
  EXPECT_EQ(base::ReadFile(told).value_or(""), "AlreadyRunning");
}

// What it names, containers that run may need.
TEST_F(InFolder, AnInstallationThatCannotBeReadIsNotNone) {
  EXPECT_EQ(InstalledLowLevel(folder_).value_or("?"), "");
  const auto config = folder_ / ".config/nvidia-container-runtime/config.toml";
  ASSERT_TRUE(base::WriteFileAtomically(
      config, "[nvidia-container-runtime]\nruntimes = [\"/usr/bin/crun\", \"runc\"]\n"));
  EXPECT_EQ(InstalledLowLevel(folder_).value_or("?"), "/usr/bin/crun");
  ASSERT_TRUE(base::WriteFileAtomically(config, "["));
  EXPECT_EQ(InstalledLowLevel(folder_).value_or("?"), "");
  fs::remove(config);
  fs::create_directories(config);
  EXPECT_FALSE(InstalledLowLevel(folder_));
}

// container-toolkit.md 4.7, 4.8, #16, #19; 13 row 3: files are replaced, not deleted first.
TEST_F(InFolder, Installation) {
  RecordProperty("holds", "container-toolkit.md #16, #19");
  ASSERT_TRUE(
      base::WriteFileAtomically(folder_ / "src/usr/bin/nvidia-container-runtime", "one", 0755));
  Options options;
  options.source_root = folder_ / "src";
  options.install_folder = folder_ / "dst";
  options.driver_root = "/run/nvidia/driver";
  const fs::path toolkit = options.toolkit_folder();
  ASSERT_TRUE(base::WriteFileAtomically(toolkit / "nvidia-container-runtime.real", "old"));
  ASSERT_TRUE(Install(options, {"runc", "crun"}));
  for (const auto* name : {"nvidia-container-runtime", "nvidia-container-runtime.cdi",
                           "nvidia-container-runtime.legacy", "nvidia-container-runtime-hook",
                           "nvidia-container-toolkit", "nvidia-cdi-hook", "nvidia-ctk"}) {
    EXPECT_EQ(*base::ReadFile(toolkit / name), "one") << name;
    EXPECT_EQ(fs::status(toolkit / name).permissions(), fs::perms(0755)) << name;
  }
  EXPECT_EQ(fs::read_symlink(toolkit / "nvidia-container-toolkit"),
            "nvidia-container-runtime-hook");
  EXPECT_FALSE(fs::exists(toolkit / "nvidia-container-runtime.real"));
  const auto written = fs::last_write_time(toolkit / "nvidia-container-runtime");
  ASSERT_TRUE(Install(options, {"runc", "crun"}));
  EXPECT_EQ(fs::last_write_time(toolkit / "nvidia-container-runtime"), written);

  const auto config =
      codec::ParseToml(*base::ReadFile(toolkit / ".config/nvidia-container-runtime/config.toml"));
  EXPECT_EQ(codec::FindString(*config, {"nvidia-container-cli", "root"}), "/run/nvidia/driver");
  EXPECT_EQ(codec::FindString(*config, {"nvidia-container-cli", "ldconfig"}),
            "@/run/nvidia/driver/sbin/ldconfig");
  EXPECT_EQ((*config)["nvidia-container-runtime-hook"]["skip-mode-detection"], true);
  EXPECT_EQ((*config)["nvidia-container-runtime"]["runtimes"], (codec::Json{"runc", "crun"}));
  EXPECT_FALSE(config->contains("features"));
}

// What is installed is for an engine that somebody else configures: its files are not even read.
TEST_F(InFolder, WithoutRuntimeConfigurationTheEngineIsLeftAlone) {
  ASSERT_TRUE(
      base::WriteFileAtomically(folder_ / "src/usr/bin/nvidia-container-runtime", "one", 0755));
  const std::string engine =
      "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd"
      ".runtimes.runc.options]\nBinaryName = \"/opt/runc\"\n";
  ASSERT_TRUE(base::WriteFileAtomically(folder_ / "config.toml", engine));
  const auto low_level = [&] {
    const auto config = codec::ParseToml(
        *base::ReadFile(folder_ / "dst/toolkit/.config/nvidia-container-runtime/config.toml"));
    return (*config)["nvidia-container-runtime"]["runtimes"];
  };
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"nvidia-toolkit",
                                   "--no-daemon",
                                   "--runtime=containerd",
                                   "--restart-mode=none",
                                   "--config-source=file",
                                   "--cdi-enabled=false",
                                   "--toolkit-install-dir=" + (folder_ / "dst").string(),
                                   "--toolkit-source-root=" + (folder_ / "src").string(),
                                   "--pid-file=" + (folder_ / "run/toolkit.pid").string(),
                                   "--config=" + (folder_ / "config.toml").string(),
                                   "--drop-in-config=" + options_.drop_in.string(),
                                   "--socket=" + options_.socket.string(),
                                   "--host-root=" + options_.host_root.string()};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    return InstallerCommand(static_cast<int>(argv.size()), argv.data());
  };
  EXPECT_EQ(run({"--no-runtime-config"}), 0);
  EXPECT_EQ(low_level(), (codec::Json{"runc", "crun"}));
  EXPECT_FALSE(fs::exists(options_.drop_in));
  EXPECT_EQ(*base::ReadFile(folder_ / "config.toml"), engine);
  EXPECT_EQ(run({}), 0);
  EXPECT_EQ(low_level(), (codec::Json{"/opt/runc", "runc", "crun"}));
  EXPECT_TRUE(fs::exists(options_.drop_in));
}

// container-toolkit.md 4.8, "Resulting key order" and "set only when".
TEST(RuntimeConfig, TextForTheOperatorsSettings) {
  Options options;
  options.install_folder = "/usr/local/nvidia";
  options.driver_root = "/run/nvidia/driver";
  options.runtime.mode = "cdi";
  options.runtime.default_kind = "management.nvidia.com/gpu";
  options.runtime.log_level = "";
  EXPECT_EQ(RuntimeConfigText(options, {"runc"}),
            R"(accept-nvidia-visible-devices-as-volume-mounts = false
accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"
swarm-resource = ""

[nvidia-container-cli]
  debug = ""
  environment = []
  ldcache = ""
  ldconfig = "@/run/nvidia/driver/sbin/ldconfig"
  load-kmods = true
  no-cgroups = false
  path = "/usr/local/nvidia/toolkit/nvidia-container-cli"
  root = "/run/nvidia/driver"
  user = ""

[nvidia-container-runtime]
  debug = "/dev/null"
  log-level = "info"
  mode = "cdi"
  runtimes = ["runc"]

  [nvidia-container-runtime.modes]

    [nvidia-container-runtime.modes.cdi]
      annotation-prefixes = ["cdi.k8s.io/"]
      default-kind = "management.nvidia.com/gpu"
      spec-dirs = ["/etc/cdi", "/var/run/cdi"]

    [nvidia-container-runtime.modes.csv]
      mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"

    [nvidia-container-runtime.modes.legacy]
      cuda-compat-mode = "ldconfig"

[nvidia-container-runtime-hook]
  path = "/usr/local/nvidia/toolkit/nvidia-container-runtime-hook"
  skip-mode-detection = true

[nvidia-ctk]
  path = "/usr/local/nvidia/toolkit/nvidia-ctk"
)");
}

}  // namespace
}  // namespace pitcrew::node::toolkit

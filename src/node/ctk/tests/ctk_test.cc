// nvidia-ctk as a person calls it (container-toolkit.md 5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "codec/json.h"
#include "codec/toml.h"
#include "node/ctk/command.h"
#include "node/ctk/generate_flags.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::ctk {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = 0;
  std::string output;
};

Outcome Ctk(std::vector<std::string> words) {
  words.insert(words.begin(), "nvidia-ctk");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  Outcome run;
  run.status = Command(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  run.output = ::testing::internal::GetCapturedStdout();
  return run;
}

// A hook gives up its process's privileges and environment for good.
int StatusInChild(const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Ctk(words).status);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class CtkTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string At(const std::string& inside) const {
    return (folder_.path() / inside).string();
  }
  [[nodiscard]] std::string Text(const std::string& inside) const {
    return base::ReadFile(At(inside)).value_or("(none)");
  }
  [[nodiscard]] Outcome ConfigureContainerd(std::vector<std::string> more) const {
    std::vector<std::string> words = {"runtime", "configure", "--runtime=containerd",
                                      "--config=" + At("config.toml"),
                                      "--drop-in-config=" + At("conf.d/99-nvidia.toml")};
    words.insert(words.end(), more.begin(), more.end());
    return Ctk(words);
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(CtkTest, ConfiguresContainerdBehindWhatIsImportedAlready) {
  RecordProperty("holds", "container-toolkit.md #50, #53");
  folder_.Write("config.toml", "version = 2\nimports = [\"/etc/more/*.toml\"]\n");
  ASSERT_EQ(
      ConfigureContainerd({"--nvidia-runtime-name=gpu", "--nvidia-runtime-path=/opt/r"}).status, 0);
  const auto root = codec::ParseToml(Text("config.toml"));
  ASSERT_TRUE(root);
  EXPECT_EQ((*root)["imports"], codec::Json::array({"/etc/more/*.toml", At("conf.d/*.toml")}));
  const auto drop_in = codec::ParseToml(Text("conf.d/99-nvidia.toml"));
  ASSERT_TRUE(drop_in);
  const auto* runtimes =
      codec::Find(*drop_in, {"plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes"});
  ASSERT_NE(runtimes, nullptr);
  EXPECT_EQ(runtimes->size(), 1u);
  EXPECT_EQ(codec::FindString(*runtimes, {"gpu", "options", "BinaryName"}), "/opt/r");
  EXPECT_FALSE(
      codec::Find(*drop_in, {"plugins", "io.containerd.grpc.v1.cri"})->contains("enable_cdi"));
}

TEST_F(CtkTest, ADryRunPrintsAndWritesNothing) {
  RecordProperty("holds", "container-toolkit.md #51");
  folder_.Write("config.toml", "version = 2\n");
  const auto run = ConfigureContainerd({"--dry-run"});
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.output.find("imports"), std::string::npos);
  EXPECT_NE(run.output.find("/usr/bin/nvidia-container-runtime"), std::string::npos);
  EXPECT_EQ(Text("config.toml"), "version = 2\n");
  EXPECT_FALSE(fs::exists(At("conf.d")));
}

TEST_F(CtkTest, WritesAnOciHookInsteadOfRuntimes) {
  const std::vector<std::string> words = {"runtime", "configure", "--runtime=crio",
                                          "--config=" + At("crio.conf"),
                                          "--drop-in-config=" + At("99.conf")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Ctk(more);
  };
  ASSERT_EQ(with({"--config-mode=hook", "--oci-hook-path=" + At("hooks.d/h.json"),
                  "--nvidia-runtime-hook-path=/opt/hook"})
                .status,
            0);
  EXPECT_EQ(codec::ParseJson(Text("hooks.d/h.json"))->at("hook").at("path"), "/opt/hook");
  EXPECT_FALSE(fs::exists(At("99.conf")));
  EXPECT_FALSE(fs::exists(At("crio.conf")));
  // Without a file, and in a dry run, it is printed.
  const auto printed = with({"--config-mode=oci-hook"});
  EXPECT_THAT(printed.output, HasSubstr("/usr/bin/nvidia-container-runtime-hook"));
  EXPECT_THAT(with({"--config-mode=hook", "--dry-run", "--oci-hook-path=" + At("dry.json")}).output,
              HasSubstr("\"prestart\""));
  EXPECT_FALSE(fs::exists(At("dry.json")));
  EXPECT_EQ(with({"--config-mode=hook", "--nvidia-runtime-hook-path=bin/hook"}).status, 2);
  EXPECT_EQ(with({"--config-mode=both"}).status, 2);
  ASSERT_EQ(with({"--config-mode=config-file"}).status, 0);
  EXPECT_THAT(Text("99.conf"), HasSubstr("crio.runtime.runtimes.nvidia"));
}

TEST_F(CtkTest, BadUsageIsSaidBeforeAnythingIsRead) {
  RecordProperty("holds", "container-toolkit.md #52");
  EXPECT_EQ(Ctk({"runtime", "configure", "--runtime=docker", "--drop-in-config=/d.json"}).status,
            2);
  EXPECT_EQ(Ctk({"runtime", "configure", "--runtime=containerd", "--drop-in-config=d.toml"}).status,
            2);
  for (const auto* engine : {"containerd", "crio"}) {
    EXPECT_EQ(
        Ctk({"runtime", "configure", "--runtime", engine, "--nvidia-runtime-path=bin/r"}).status,
        2);
  }
}

// What cannot be read is not taken for missing, and not written over.
TEST_F(CtkTest, AFileThatCannotBeReadStays) {
  fs::create_directories(At("config.toml"));
  EXPECT_EQ(ConfigureContainerd({}).status, 1);
  EXPECT_TRUE(fs::is_directory(At("config.toml")));
  EXPECT_FALSE(fs::exists(At("conf.d/99-nvidia.toml")));
}

TEST_F(CtkTest, PasswordsOfRegistriesStayPrivate) {
  RecordProperty("holds", "runtimes-and-distributions.md #18");
  folder_.Write("config.toml",
                "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"r\".auth]\n"
                "password = \"secret\"\n");
  ASSERT_EQ(::chmod(At("config.toml").c_str(), 0600), 0);
  ASSERT_EQ(ConfigureContainerd({}).status, 0);
  for (const auto* file : {"config.toml", "conf.d/99-nvidia.toml"}) {
    struct stat status{};
    ASSERT_EQ(::stat(At(file).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << file;
  }
}

TEST_F(CtkTest, ListsSortedNamesThoughOneSpecificationIsBroken) {
  RecordProperty("holds", "container-toolkit.md #61");
  folder_.Write("a.yaml",
                "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
                "- {name: \"1\", containerEdits: {env: [A=b]}}\n"
                "- {name: \"0\", containerEdits: {env: [A=b]}}\n");
  folder_.Write("b.yaml", "{");
  const auto run = Ctk({"cdi", "list", "--spec-dir=" + folder_.path().string()});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.output, "nvidia.com/gpu=0\nnvidia.com/gpu=1\n");
}

TEST_F(CtkTest, PutsAnotherRootBeforeThePathsOfASpecification) {
  RecordProperty("holds", "container-toolkit.md #93");
  const auto spec =
      folder_.Write("in.yaml",
                    "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
                    "- name: \"0\"\n  containerEdits:\n    deviceNodes:\n"
                    "    - path: /dev/nvidia0\n      hostPath: /driver/dev/nvidia0\n");
  const std::vector<std::string> words = {"cdi",     "transform", "root",       "--from=/driver",
                                          "--to=/x", "--input",   spec.string()};
  const auto printed = Ctk(words);
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.output, HasSubstr("hostPath: /x/dev/nvidia0\n"));
  EXPECT_THAT(printed.output, HasSubstr("path: /dev/nvidia0\n"));
  auto into_file = words;
  into_file.push_back("--output=" + At("out.yaml"));
  EXPECT_EQ(Ctk(into_file).status, 0);
  EXPECT_EQ(Text("out.yaml"), printed.output);
  auto wrong = words;
  wrong.emplace_back("--relative-to=moon");
  EXPECT_EQ(Ctk(wrong).status, 2);
}

TEST_F(CtkTest, GeneratesTheClassesBesideGpus) {
  RecordProperty("holds", "container-toolkit.md #62, #63, #65");
  fs::create_directories(At("dev/infiniband"));
  // A link to a character device stands for one: making them needs rights.
  for (const auto* node :
       {"dev/gdrdrv", "dev/nvidia-fs0", "dev/infiniband/uverbs0", "dev/infiniband/rdma_cm",
        "dev/nvidia-nvswitchctl", "dev/nvidia-nvswitch0"}) {
    fs::create_symlink("/dev/null", At(node));
  }
  folder_.Write("etc/cufile.json", "{}");
  folder_.Write("run/udev/data", "");
  const auto generate = [&](const std::string& mode) {
    return Ctk({"cdi", "generate", "--mode=" + mode, "--driver-root=" + folder_.path().string()});
  };
  const auto gds = generate("gds");
  EXPECT_EQ(gds.status, 0);
  EXPECT_THAT(gds.output, HasSubstr("kind: nvidia.com/gpu\n"));
  EXPECT_THAT(gds.output, HasSubstr("name: all\n"));
  EXPECT_THAT(gds.output, HasSubstr("- NVIDIA_VISIBLE_DEVICES=void\n"));
  EXPECT_LT(gds.output.find("containerPath: /etc/cufile.json"),
            gds.output.find("containerPath: /run/udev"));
  const auto mofed = generate("MOFED").output;
  EXPECT_LT(mofed.find("path: /dev/infiniband/rdma_cm"),
            mofed.find("path: /dev/infiniband/uverbs0"));
  EXPECT_THAT(generate("gdrcopy").output, HasSubstr("path: /dev/gdrdrv\n"));
  EXPECT_THAT(generate("nvswitch").output, HasSubstr("path: /dev/nvidia-nvswitchctl\n"));
  fs::remove(At("dev/gdrdrv"));
  EXPECT_EQ(generate("gdrcopy").status, 1) << "there is none";
}

TEST_F(CtkTest, GeneratesImexChannelsByTheirNumbers) {
  RecordProperty("holds", "container-toolkit.md #68");
  fs::create_directories(At("dev/nvidia-caps-imex-channels"));
  for (const auto* name : {"channel0", "channel10", "channel2"}) {
    fs::create_symlink("/dev/null", At("dev/nvidia-caps-imex-channels/" + std::string(name)));
  }
  const auto generate = [&](const std::string& id) {
    return Ctk({"cdi", "generate", "--mode=imex", "--device-id=" + id,
                "--driver-root=" + folder_.path().string()});
  };
  EXPECT_THAT(generate("0").output, HasSubstr("channels/channel0\n"));
  EXPECT_THAT(generate("channel2").output, HasSubstr("name: \"2\"\n"));
  const auto all = generate("all").output;
  EXPECT_LT(all.find("name: \"10\""), all.find("name: \"2\"")) << "devices are sorted by name";
  EXPECT_EQ(all.find("name: all"), std::string::npos) << "nobody gets every channel by one name";
  for (const auto* wrong : {"x", "channel", "-1", "1048576", "channel1048576"}) {
    EXPECT_EQ(generate(wrong).status, 2) << wrong;
  }
  EXPECT_EQ(generate("1048575").status, 1) << "the last number that there can be";
  EXPECT_EQ(generate("7").status, 1) << "the node has none of that number";
  // What else lies in the folder is no channel.
  fs::create_symlink("/dev/null", At("dev/nvidia-caps-imex-channels/other"));
  fs::create_symlink("/dev/null", At("dev/nvidia-caps-imex-channels/channelx"));
  EXPECT_EQ(generate("all").output, all);
  fs::remove_all(At("dev/nvidia-caps-imex-channels"));
  EXPECT_EQ(generate("all").status, 1) << "the node has none at all";
}

class TegraSystem : public CtkTest {
 protected:
  TegraSystem() {
    folder_.Write("etc/nv_tegra_release", "# R36\n");
    folder_.Write("usr/lib/tegra/libnvos.so.1", "x");
    folder_.Write("usr/lib/more/libnvmore.so.1", "x");
    fs::create_symlink("libnvos.so.1", At("usr/lib/tegra/libnvos.so"));
    fs::create_symlink("libnvos.so.1", At("usr/lib/tegra/libignored.so"));
    // Device nodes are made by root alone: one that every machine has.
    folder_.Write("devices.csv", "dev, /dev/null\n");
    folder_.Write("l4t.csv",
                  "lib, libnvmore.so.1\nsym, /usr/lib/tegra/libnvos.so\n"
                  "sym, /usr/lib/tegra/libignored.so\n");
  }
  [[nodiscard]] Outcome Generate(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"cdi", "generate", "--driver-root=" + At(""), "--dev-root=/",
                                      "--csv.file=" + At("devices.csv") + "," + At("l4t.csv")};
    words.insert(words.end(), more.begin(), more.end());
    return Ctk(words);
  }
};

TEST_F(TegraSystem, ItsListsAreFoundByItself) {
  RecordProperty("holds", "container-toolkit.md #69");
  const auto run = Generate();
  ASSERT_EQ(run.status, 0);
  EXPECT_THAT(run.output, HasSubstr("- path: /dev/null\n"));
  EXPECT_THAT(run.output, HasSubstr("containerPath: /usr/lib/tegra/libnvos.so.1\n"));
  EXPECT_THAT(run.output, HasSubstr("- libnvos.so.1::/usr/lib/tegra/libnvos.so\n"));
  EXPECT_THAT(run.output, HasSubstr("- libnvos.so.1::/usr/lib/tegra/libignored.so\n"));
  EXPECT_THAT(run.output, HasSubstr("hostPath: " + At("etc/nv_tegra_release") + "\n"));
  EXPECT_THAT(run.output, Not(HasSubstr("libnvmore")));
  EXPECT_EQ(Generate({"--mode=csv"}).output, run.output);
  EXPECT_EQ(Generate({"--mode=nvml"}).status, 1) << "there is no NVML";
}

TEST_F(TegraSystem, FlagsOfTheListsAreHeard) {
  const auto run = Generate({"--csv.ignore-pattern=**/libign*", "--device-id=0",
                             "--library-search-path=/usr/lib/more", "--disable-hook=all"});
  ASSERT_EQ(run.status, 0);
  EXPECT_THAT(run.output, HasSubstr("containerPath: /usr/lib/more/libnvmore.so.1\n"));
  EXPECT_THAT(run.output, Not(HasSubstr("libignored")));
  EXPECT_THAT(run.output, Not(HasSubstr("hooks")));
  EXPECT_EQ(Generate({"--device-id=1"}).status, 2);
}

// A driver's root, whose device nodes are the machine's own: none but root can make others.
class ManagementSpec : public CtkTest {
 protected:
  ManagementSpec() {
    folder_.Write("opt/nv/libcuda.so.580.95.05", "x");
    folder_.Write("opt/nv/libGL.so.1.7.0", "x");
    fs::create_symlink("libGL.so.1.7.0", At("opt/nv/libGL.so"));
    fs::create_directories(At("dev"));
    fs::create_symlink("/dev/null", At("dev/gdrdrv"));
  }
  [[nodiscard]] std::string Locate(std::vector<std::string> more) const {
    std::vector<std::string> words = {"cdi", "generate", "--driver-root=" + At(""),
                                      "--mode=management"};
    words.insert(words.end(), more.begin(), more.end());
    ::testing::internal::CaptureStderr();
    const auto run = Ctk(words);
    return ::testing::internal::GetCapturedStderr() + run.output;
  }
};

// Without a device node there is no specification: the reason tells how far it came.
TEST_F(ManagementSpec, LibrariesAreLookedForInTheFoldersThatAreNamed) {
  EXPECT_THAT(Locate({}), HasSubstr("DriverVersionUnknown"));
  EXPECT_THAT(Locate({"--library-search-path=" + At("opt/none")}),
              HasSubstr("DriverVersionUnknown"));
  EXPECT_THAT(Locate({"--library-search-path=" + At("opt/none") + "," + At("opt/nv")}),
              HasSubstr("NoDeviceNodes"));
  EXPECT_THAT(Locate({"--library-search-path=/opt/nv"}), HasSubstr("BadUsage"));
  EXPECT_THAT(Locate({"--config-search-path=/opt/nv"}), HasSubstr("BadUsage"));
}

TEST_F(ManagementSpec, TheEndingOfTheOutputDecidesItsForm) {
  const auto write = [&](const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"cdi", "generate", "--mode=gdrcopy", "--dev-root=" + At(""),
                                      "--output=" + At(name)};
    words.insert(words.end(), more.begin(), more.end());
    return Ctk(words).status;
  };
  EXPECT_EQ(write("a.json"), 0);
  EXPECT_THAT(Text("a.json"), HasSubstr("{\"cdiVersion\""));
  EXPECT_EQ(write("b.yml"), 0);
  EXPECT_THAT(Text("b.yml.yaml"), HasSubstr("cdiVersion: "));
  EXPECT_EQ(write("c", {"--format=JSON"}), 0);
  EXPECT_THAT(Text("c.json"), HasSubstr("{\"cdiVersion\""));
  EXPECT_EQ(write("d.yaml", {"--format=json"}), 0);
  EXPECT_THAT(Text("d.yaml"), HasSubstr("cdiVersion: "));
}

TEST_F(TegraSystem, UnknownHooksAndFeaturesAreSaid) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(
      Generate({"--disable-hook=chmod,no-such-hook", "--feature-flag=no-such-feature"}).status, 0);
  const auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("no-such-hook"));
  EXPECT_THAT(log, HasSubstr("no-such-feature"));
  EXPECT_THAT(log, Not(HasSubstr("name=chmod")));
}

TEST_F(TegraSystem, TheHookIsFoundWhereProgramsAre) {
  const auto hook = [&](const std::string& path) {
    const auto run = Generate({"--nvidia-cdi-hook-path=" + path});
    const auto at = run.output.find("path: /", run.output.find("hookName"));
    return run.output.substr(at + 6, run.output.find('\n', at) - at - 6);
  };
  const std::string path = std::getenv("PATH");
  folder_.Write("bin/nvidia-cdi-hook", "x");
  fs::permissions(At("bin/nvidia-cdi-hook"), fs::perms::owner_all);
  folder_.Write("bin/nvidia-ctk", "x");  // is no program
  ::setenv("PATH", ("not/absolute:" + path + ":" + At("bin")).c_str(), 1);
  const auto request = ReadRequest({}, {});
  ASSERT_TRUE(request);
  EXPECT_THAT(request->program_folders, Contains(At("bin"))) << "for the driver's programs too";
  EXPECT_THAT(request->program_folders, Each(StartsWith("/")));
  EXPECT_EQ(hook(""), At("bin/nvidia-cdi-hook"));
  EXPECT_EQ(hook("nvidia-ctk"), "/usr/bin/nvidia-ctk");
  EXPECT_EQ(hook("/not/there"), "/not/there");
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(CtkTest, WhatIsNoWslSystemHasNoSuchMode) {
  const auto generate = [&](const std::string& flag) {
    return Ctk({"cdi", "generate", "--mode=wsl", "--driver-root=" + At(""), flag}).status;
  };
  EXPECT_EQ(generate("--no-all-device"), 1) << "there is no libdxcore.so";
  EXPECT_EQ(generate("--device-id=0"), 2);
}

TEST_F(CtkTest, WhatIsNotThereIsRefusedByName) {
  for (const auto* words :
       {"--mode=x", "--enable-hook=all", "--config-search-path=conf", "--format=xml"}) {
    EXPECT_EQ(Ctk({"cdi", "generate", words}).status, 2) << words;
  }
}

TEST_F(CtkTest, ShowsAndChangesTheRuntimesConfiguration) {
  folder_.Write("config.toml", "[nvidia-container-runtime]\nmode = \"cdi\"\n");
  const std::string file = "--config-file=" + At("config.toml");
  EXPECT_THAT(Ctk({"config", file}).output, HasSubstr("\nmode = \"cdi\"\n"));
  EXPECT_EQ(Ctk({"config", file, "--in-place", "--set", "nvidia-container-runtime.mode=legacy",
                 "--set=nvidia-container-runtime.runtimes=a:b"})
                .status,
            0);
  EXPECT_THAT(Text("config.toml"), HasSubstr("\nmode = \"legacy\"\nruntimes = [\"a\", \"b\"]\n"));
  const auto before = Text("config.toml");
  EXPECT_EQ(Ctk({"config", file, "-i", "--set", "nvidia-ctk.path=/x", "--set", "unknown=1"}).status,
            2);
  EXPECT_EQ(Text("config.toml"), before) << "all or nothing";
  EXPECT_EQ(Ctk({"config", file, "-i", "-o", At("other.toml")}).status, 2);
  EXPECT_EQ(Ctk({"config", "default", "--output", At("new/config.toml")}).status, 0);
  EXPECT_THAT(Text("new/config.toml"), HasSubstr("[nvidia-container-runtime.modes.cdi]\n"));
}

// A file that a person keeps is changed as that person keeps it.
TEST_F(CtkTest, AFileThatIsThereKeepsItsModeItsOwnerAndItsLink) {
  folder_.Write("real/config.toml", "[nvidia-container-runtime]\nmode = \"cdi\"\n");
  ASSERT_EQ(::chmod(At("real/config.toml").c_str(), 0600), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(At("real/config.toml").c_str(), 12, 34), 0);
  }
  fs::create_symlink("real/config.toml", At("config.toml"));
  struct stat before{};
  ASSERT_EQ(::stat(At("config.toml").c_str(), &before), 0);
  for (const auto* mode : {"legacy", "auto"}) {
    const std::string set = std::string("nvidia-container-runtime.mode=") + mode;
    const std::vector<std::string> words =
        mode == std::string("auto")
            ? std::vector<std::string>{"config", "--config-file=" + At("real/config.toml"),
                                       "--output=" + At("config.toml"), "--set", set}
            : std::vector<std::string>{"config", "--config-file=" + At("config.toml"), "--in-place",
                                       "--set", set};
    EXPECT_EQ(Ctk(words).status, 0);
    EXPECT_THAT(Text("real/config.toml"), HasSubstr(std::string("mode = \"") + mode));
    EXPECT_EQ(fs::read_symlink(At("config.toml")), "real/config.toml");
    struct stat now{};
    ASSERT_EQ(::stat(At("config.toml").c_str(), &now), 0);
    EXPECT_EQ(now.st_mode, before.st_mode);
    EXPECT_EQ(now.st_uid, before.st_uid);
    EXPECT_EQ(now.st_gid, before.st_gid);
  }
  // What nothing can take the place of is written into.
  EXPECT_EQ(Ctk({"config", "default", "--output=/dev/null"}).status, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(CtkTest, HooksAreThoseOfTheHookProgram) {
  // A hook that is not known is passed over, as newer specifications name.
  EXPECT_EQ(StatusInChild({"hook", "noop"}), 0);
  EXPECT_EQ(StatusInChild({"hook", "create-symlinks", "--container-spec=" + At("none")}), 1);
}

TEST_F(CtkTest, UsageNamesTheCommands) {
  EXPECT_EQ(Ctk({"--help"}).status, 0);
  EXPECT_THAT(Ctk({"--help"}).output, HasSubstr("system create-dev-char-symlinks"));
  EXPECT_EQ(Ctk({}).output, Ctk({"--help"}).output);
  EXPECT_EQ(Ctk({}).status, 0);
  EXPECT_EQ(Ctk({"--unknown"}).status, 2);
  EXPECT_EQ(Ctk({"cdi", "unknown"}).status, 2);
}

TEST_F(CtkTest, AGroupOfCommandsNamesItsOwn) {
  for (const auto& words : {std::vector<std::string>{"cdi", "transform"},
                            {"cdi", "transform", "--help"},
                            {"help", "cdi", "transform"}}) {
    const auto run = Ctk(words);
    EXPECT_EQ(run.status, 0);
    EXPECT_THAT(run.output, HasSubstr("cdi transform root"));
    EXPECT_THAT(run.output, Not(HasSubstr("cdi list")));
  }
}

TEST_F(TegraSystem, InfoTellsWhatItIs) {
  const auto run = Ctk({"info", "--driver-root=" + At("")});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.output, HasSubstr("mode:   csv\n"));
  EXPECT_THAT(run.output, HasSubstr("NVML:   there is no libnvidia-ml.so.1"));
}

}  // namespace
}  // namespace pitcrew::node::ctk

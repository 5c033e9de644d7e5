// The shim in front of the real runc: a container that it starts has the edits of a CDI
// specification, its hooks ran, and its loader finds the mounted library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "codec/json.h"
#include "codec/toml.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;
using codec::Json;

struct Outcome {
  int status = -1;
  std::string output;  // of both streams
};

Outcome Execute(const std::vector<std::string>& words) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return {};
  base::FileDescriptor read_end(fds[0]);
  base::FileDescriptor write_end(fds[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::dup2(fds[1], STDOUT_FILENO);
    ::dup2(fds[1], STDERR_FILENO);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  write_end.Close();
  Outcome outcome;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(read_end.get(), buffer, sizeof(buffer))) > 0;) {
    outcome.output.append(buffer, static_cast<std::size_t>(count));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// The shared library that every dynamic program of this machine has.
fs::path MathLibrary() {
  for (const auto* path : {"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"}) {
    if (fs::exists(path)) return fs::canonical(path);
  }
  return {};
}

class Runc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "starting containers needs root";
    if (Execute({"runc", "--version"}).status != 0) GTEST_SKIP() << "runc is not installed";
    folder_ = fs::path(::testing::TempDir()) / ("pitcrew-runc-" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "bundle/rootfs");
    MakeRoot();
    MakeToolkit();
    MakeSpecification();
  }
  void TearDown() override {
    if (folder_.empty()) return;
    Execute({"runc", "--root", (folder_ / "state").string(), "delete", "--force", Id()});
    fs::remove_all(folder_);
  }

  // A tree with the C library, its loader and three programs; no /etc.
  void MakeRoot() {
    const fs::path root = folder_ / "bundle/rootfs";
    for (const auto* path : {"/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6",
                             "/usr/bin/env", "/bin/true"}) {
      fs::create_directories((root.string() + path).substr(0, (root.string() + path).rfind('/')));
      fs::copy_file(fs::canonical(path), root.string() + path);
    }
  }

  // What the installer makes: the shim, its names, its configuration beside it.
  void MakeToolkit() {
    fs::create_directories(toolkit());
    fs::copy_file(PITCREW_SHIM, toolkit() / "nvidia-container-runtime");
    fs::create_symlink("nvidia-container-runtime", toolkit() / "nvidia-cdi-hook");
    const Json config = {{"nvidia-container-runtime",
                          {{"mode", "cdi"},
                           {"runtimes", {"runc"}},
                           {"modes",
                            {{"cdi",
                              {{"default-kind", "management.nvidia.com/gpu"},
                               {"spec-dirs", {(folder_ / "cdi").string()}}}}}}}}};
    ASSERT_TRUE(base::WriteFileAtomically(
        toolkit() / ".config/nvidia-container-runtime/config.toml", codec::ToTomlText(config)));
  }

  void MakeSpecification() {
    // A node of the host's that exists everywhere stands for a GPU's.
    ASSERT_EQ(::mknod((folder_ / "nvidia0").c_str(), S_IFCHR | 0666, ::makedev(1, 3)), 0);
    ASSERT_EQ(::chmod((folder_ / "nvidia0").c_str(), 0666), 0);
    cdi::Spec spec{"", "management.nvidia.com/gpu", {}, {{"all", {}, {}}}, {}};
    cdi::DeviceNode node;
    node.path = "/dev/nvidia0";
    node.host_path = (folder_ / "nvidia0").string();
    spec.devices[0].edits.device_nodes = {node};
    spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void"};
    spec.edits.mounts = {
        {MathLibrary().string(), "/opt/driver/libm.so.6.999", {"ro", "rbind"}, ""}};
    const std::string hook = (toolkit() / "nvidia-cdi-hook").string();
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"create-symlinks", "--link",
                                   "libm.so.6.999::/opt/driver/libm.so"},
          std::vector<std::string>{"enable-cuda-compat", "--host-driver-version=580.95.05"},
          std::vector<std::string>{"update-ldcache", "--folder", "/opt/driver"},
          std::vector<std::string>{"disable-device-node-modification"},
          std::vector<std::string>{"update-application-profile"}}) {
      cdi::Hook entry{"createContainer", hook, {"nvidia-cdi-hook"}, {"NVIDIA_CTK_DEBUG=false"}, {}};
      entry.args.insert(entry.args.end(), arguments.begin(), arguments.end());
      spec.edits.hooks.push_back(std::move(entry));
    }
    ASSERT_TRUE(cdi::WriteSpecFile(folder_ / "cdi/management.yaml", spec));
  }

  void WriteBundle(const std::vector<std::string>& arguments, const std::string& devices) {
    const Json config = {
        {"ociVersion", "1.0.2"},
        {"process",
         {{"args", arguments},
          {"cwd", "/"},
          {"env", {"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=" + devices}},
          {"user", {{"uid", 0}, {"gid", 0}}}}},
        {"root", {{"path", "rootfs"}}},
        {"mounts",
         {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}},
          {{"destination", "/dev"}, {"type", "tmpfs"}, {"source", "tmpfs"}}}},
        {"linux",
         {{"cgroupsPath", "/" + Id()},
          {"namespaces",
           {{{"type", "mount"}}, {{"type", "pid"}}, {{"type", "ipc"}}, {{"type", "uts"}}}}}}};
    ASSERT_TRUE(
        base::WriteFileAtomically(folder_ / "bundle/config.json", codec::ToJsonText(config)));
  }

  // Only create: for what fails there.
  Outcome Create(const std::vector<std::string>& arguments, const std::string& devices) {
    WriteBundle(arguments, devices);
    return Execute({(toolkit() / "nvidia-container-runtime").string(), "--root",
                    (folder_ / "state").string(), "--log", (folder_ / "log.json").string(),
                    "--log-format", "json", "create", "--bundle", (folder_ / "bundle").string(),
                    Id()});
  }

  // create, then start, with one pipe: the container keeps the write end until it ends.
  Outcome CreateAndStart(const std::vector<std::string>& arguments, const std::string& devices) {
    WriteBundle(arguments, devices);
    const std::string shim = (toolkit() / "nvidia-container-runtime").string();
    const std::string command = shim + " --root " + (folder_ / "state").string() + " --log " +
                                (folder_ / "log.json").string() + " --log-format json ";
    auto outcome = Execute({"/bin/sh", "-c",
                            command + "create --bundle " + (folder_ / "bundle").string() + " " +
                                Id() + " && " + command + "start " + Id()});
    Execute({"runc", "--root", (folder_ / "state").string(), "delete", "--force", Id()});
    return outcome;
  }

  [[nodiscard]] fs::path toolkit() const { return folder_ / "toolkit"; }
  [[nodiscard]] static std::string Id() { return "pitcrew-shim-" + std::to_string(::getpid()); }
  [[nodiscard]] fs::path root() const { return folder_ / "bundle/rootfs"; }
  fs::path folder_;
};

// container-toolkit.md 7.1, 7.4, 7.7, 9: the whole way.
TEST_F(Runc, AContainerGetsTheEditsOfTheSpecification) {
  const auto outcome = CreateAndStart({"/usr/bin/env"}, "all");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("NVIDIA_VISIBLE_DEVICES=void\n"), std::string::npos)
      << outcome.output;
  const auto config = codec::ParseJson(*base::ReadFile(folder_ / "bundle/config.json"));
  ASSERT_TRUE(config);
  EXPECT_EQ((*config)["linux"]["devices"], (Json{{{"path", "/dev/nvidia0"},
                                                  {"type", "c"},
                                                  {"major", 1},
                                                  {"minor", 3},
                                                  {"fileMode", 0666}}}))
      << (*config)["linux"]["devices"];
  EXPECT_EQ((*config)["linux"]["resources"]["devices"].size(), 1U);
  EXPECT_EQ(fs::read_symlink(root() / "opt/driver/libm.so"), "libm.so.6.999");
  EXPECT_EQ(fs::read_symlink(root() / "opt/driver/libm.so.6"), "libm.so.6.999");
  EXPECT_TRUE(fs::exists(root() / "etc/ld.so.cache"));
  // /dev/nvidia0 has minor 3 here: bit 3.
  EXPECT_NE(base::ReadFile(root() / "etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf")
                ->find("0x8]"),
            std::string::npos);
}

// The real loader of the C library finds the mounted driver library through the cache that we
// wrote.
TEST_F(Runc, TheLoaderOfTheContainerFindsTheLibrary) {
  const auto outcome = CreateAndStart(
      {"/lib64/ld-linux-x86-64.so.2", "--preload", "libm.so.6", "--list", "/bin/true"}, "all");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("/opt/driver/libm.so.6"), std::string::npos) << outcome.output;
}

TEST_F(Runc, WithoutARequestNothingIsChanged) {
  const auto outcome = CreateAndStart({"/usr/bin/env"}, "void");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_FALSE(fs::exists(root() / "etc/ld.so.cache"));
  const auto config = codec::ParseJson(*base::ReadFile(folder_ / "bundle/config.json"));
  EXPECT_FALSE((*config)["linux"].contains("devices"));
}

// The engine shows the last error of the log as the pod's event.
TEST_F(Runc, AnUnknownDeviceFailsWithAReasonInTheEnginesLog) {
  const auto outcome = Create({"/usr/bin/env"}, "management.nvidia.com/gpu=GPU-7");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("unresolvable CDI devices management.nvidia.com/gpu=GPU-7"),
            std::string::npos)
      << outcome.output;
  const auto log = base::ReadFile(folder_ / "log.json");
  ASSERT_TRUE(log);
  const auto lines = base::SplitTrimmed(*log, '\n');
  ASSERT_FALSE(lines.empty());
  const auto last = codec::ParseJson(lines.front());
  ASSERT_TRUE(last) << *log;
  EXPECT_EQ(codec::FindString(*last, {"level"}), "error");
  EXPECT_NE(codec::FindString(*last, {"msg"}).find("UnresolvableCdiDevices"), std::string::npos);
}

// Everything but create passes through untouched.
TEST_F(Runc, OtherCommandsPassThrough) {
  RecordProperty("holds", "container-toolkit.md #1, #120");
  const std::string shim = (toolkit() / "nvidia-container-runtime").string();
  const auto ours = Execute({shim, "--root", (folder_ / "state").string(), "list"});
  const auto theirs = Execute({"runc", "--root", (folder_ / "state").string(), "list"});
  EXPECT_EQ(ours.output, theirs.output);
  EXPECT_EQ(ours.status, theirs.status);
  const auto version = Execute({shim, "--version"});
  EXPECT_NE(version.output.find("NVIDIA Container Runtime version"), std::string::npos);
  EXPECT_NE(version.output.find("runc version"), std::string::npos);
}

}  // namespace
}  // namespace pitcrew::shim

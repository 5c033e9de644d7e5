// nvidia-ctk as a person calls it (container-toolkit.md 5).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "codec/json.h"
#include "codec/toml.h"
#include "node/toolkit/command.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;

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
  run.status = CtkCommand(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  run.output = ::testing::internal::GetCapturedStdout();
  return run;
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

}  // namespace
}  // namespace pitcrew::node::toolkit

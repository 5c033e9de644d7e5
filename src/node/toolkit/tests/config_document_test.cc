#include "node/toolkit/config_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A node without anything that the defaults depend on.
class ConfigDocumentTest : public ::testing::Test {
 protected:
  [[nodiscard]] ConfigDocument Defaults() const { return ConfigDocument::Defaults(root_.path()); }
  // The reason of the error; "" when it is set.
  std::string Set(const std::string& assignment, char separator = ':') {
    const auto set = document_.Set(assignment, separator);
    return set ? "" : set.error().reason;
  }
  [[nodiscard]] const codec::Json& At(const std::string& pointer) const {
    return document_.values().at(codec::Json::json_pointer(pointer));
  }

  test_support::TemporaryFolder root_;
  ConfigDocument document_ = Defaults();
};

TEST_F(ConfigDocumentTest, DefaultsThatNobodyHasSetAreComments) {
  RecordProperty("holds", "container-toolkit.md #8");
  EXPECT_EQ(Defaults().ToText(), R"(#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []
#ldcache = "/etc/ld.so.cache"
ldconfig = "@/sbin/ldconfig"
load-kmods = true
#no-cgroups = false
#path = "/usr/bin/nvidia-container-cli"
#root = "/run/nvidia/driver"
#user = "root:video"

[nvidia-container-runtime]
#debug = "/var/log/nvidia-container-runtime.log"
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/etc/cdi", "/var/run/cdi"]

[nvidia-container-runtime.modes.csv]
mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"

[nvidia-container-runtime.modes.legacy]
cuda-compat-mode = "ldconfig"

[nvidia-container-runtime-hook]
path = "nvidia-container-runtime-hook"
skip-mode-detection = false

[nvidia-ctk]
path = "nvidia-ctk"
)");
}

TEST_F(ConfigDocumentTest, WhatIsSetIsNoComment) {
  RecordProperty("holds", "container-toolkit.md #9");
  ASSERT_EQ(Set("nvidia-container-runtime.debug=/var/log/nvidia-container-runtime.log"), "");
  EXPECT_THAT(document_.ToText(),
              HasSubstr("\ndebug = \"/var/log/nvidia-container-runtime.log\"\n"));
  const auto read = ConfigDocument::Parse("[nvidia-container-cli]\nno-cgroups = false\n", "text");
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_THAT(read->ToText(), HasSubstr("\nno-cgroups = false\n"));
}

TEST_F(ConfigDocumentTest, OfAnEmptyFileOnlyCommentsAreShown) {
  RecordProperty("holds", "container-toolkit.md #10");
  const auto empty = ConfigDocument::Parse("", "text");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->ToText(), R"(#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
#ldcache = "/etc/ld.so.cache"
#no-cgroups = false
#path = "/usr/bin/nvidia-container-cli"
#root = "/run/nvidia/driver"
#user = "root:video"

[nvidia-container-runtime]
#debug = "/var/log/nvidia-container-runtime.log"
)");
}

TEST_F(ConfigDocumentTest, AssignmentsFollowTheKindOfTheKey) {
  RecordProperty("holds", "container-toolkit.md #12");
  EXPECT_EQ(Set("disable-require"), "");
  EXPECT_EQ(At("/disable-require"), true);
  EXPECT_EQ(Set("disable-require=false"), "");
  EXPECT_EQ(At("/disable-require"), false);
  EXPECT_EQ(Set("disable-require=something"), "BadValue");
  EXPECT_EQ(Set("swarm-resource"), "BadValue");
  EXPECT_EQ(Set("swarm-resource=a=b"), "");
  EXPECT_EQ(At("/swarm-resource"), "a=b");
  EXPECT_EQ(Set("swarm-resource=5"), "");
  EXPECT_EQ(At("/swarm-resource"), "5");
  EXPECT_EQ(Set("no-such-key=1"), "UnknownOption");
  EXPECT_EQ(Set("nvidia-container-cli.no-such-key=1"), "UnknownOption");
  const codec::Json two = {"first", "second"};
  EXPECT_EQ(Set("nvidia-container-runtime.runtimes=first;second", ';'), "");
  EXPECT_EQ(At("/nvidia-container-runtime/runtimes"), two);
  EXPECT_EQ(Set("nvidia-container-cli.environment=first,second"), "");
  EXPECT_EQ(At("/nvidia-container-cli/environment"), two);
  EXPECT_EQ(Set("nvidia-container-runtime.runtimes=crun"), "");
  EXPECT_EQ(At("/nvidia-container-runtime/runtimes"), codec::Json::array({"crun"}));
}

TEST_F(ConfigDocumentTest, FeaturesComeAndGo) {
  constexpr const char* kFeature = "features.allow-ldconfig-from-container";
  EXPECT_EQ(Set(kFeature), "");
  EXPECT_THAT(document_.ToText(), HasSubstr("[features]\nallow-ldconfig-from-container = true\n"));
  EXPECT_EQ(Set(std::string(kFeature) + "=nil"), "");
  EXPECT_THAT(document_.ToText(), Not(HasSubstr("allow-ldconfig")));
}

TEST_F(ConfigDocumentTest, AFailedAssignmentChangesNothing) {
  auto odd = ConfigDocument::Parse("nvidia-container-cli = \"text\"\n", "text");
  ASSERT_TRUE(odd);
  const auto set = odd->Set("nvidia-container-cli.path=/x", ':');
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().reason, "BadValue");
  EXPECT_EQ(odd->values(), codec::Json({{"nvidia-container-cli", "text"}}));
}

TEST_F(ConfigDocumentTest, KeysOfOthersStay) {
  const auto read = ConfigDocument::Parse("mine = 1\n[other]\n\"a b\" = [1, 2]\n", "text");
  ASSERT_TRUE(read);
  EXPECT_THAT(read->ToText(), HasSubstr("mine = 1\n"));
  EXPECT_THAT(read->ToText(), HasSubstr("\n[other]\n\"a b\" = [1, 2]\n"));
}

TEST_F(ConfigDocumentTest, DefaultsFollowTheNode) {
  RecordProperty("holds", "container-toolkit.md #7");
  root_.Write("etc/os-release", "ID=sles\nID_LIKE=\"suse opensuse\"\n");
  root_.Write("sbin/ldconfig.real", "");
  const auto text = Defaults().ToText();
  EXPECT_THAT(text, HasSubstr("\nuser = \"root:video\"\n"));
  EXPECT_THAT(text, HasSubstr("\nldconfig = \"@/sbin/ldconfig.real\"\n"));
}

TEST_F(ConfigDocumentTest, AMissingFileMeansTheDefaultsAnUnreadableOneAnError) {
  RecordProperty("holds", "container-toolkit.md #1");
  EXPECT_TRUE(ConfigDocument::Read(root_.path() / "none.toml"));
  EXPECT_FALSE(ConfigDocument::Read(root_.path())) << "a folder";
  root_.Write("bad.toml", "[");
  EXPECT_FALSE(ConfigDocument::Read(root_.path() / "bad.toml"));
}

}  // namespace
}  // namespace pitcrew::node::toolkit

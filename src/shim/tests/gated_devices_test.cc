// Devices beside GPUs that containers ask for.
#include "shim/gated_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

oci::Spec Container(const std::vector<std::string>& env, bool privileged = false,
                    const std::vector<std::string>& mounts = {}) {
  Json json = {{"process", {{"env", env}}}};
  if (privileged) json["process"]["capabilities"]["bounding"] = {"CAP_SYS_ADMIN"};
  for (const auto& destination : mounts) {
    json["mounts"].push_back({{"destination", destination}, {"source", "/dev/null"}});
  }
  auto spec = oci::Spec::Parse(codec::ToJsonText(json));
  EXPECT_TRUE(spec);
  return *std::move(spec);
}

std::vector<std::int64_t> Channels(const oci::Spec& spec, const Config& config = {}) {
  return FindGatedRequests(spec, config)->imex_channels;
}

class GatedDevicesTest : public ::testing::Test {
 protected:
  // A node that anybody may make: overlay file systems mark what is gone with it.
  void MakeNode(const std::string& inside) {
    const auto path = root_.Write(inside, "");
    std::filesystem::remove(path);
    ASSERT_EQ(::mknod(path.c_str(), S_IFCHR | 0600, makedev(0, 0)), 0);
  }
  [[nodiscard]] cdi::ContainerEdits Edits(GatedRequests requests) const {
    const auto edits = GatedEdits(requests, root_.path());
    EXPECT_TRUE(edits.has_value());
    return *edits;
  }
  test_support::TemporaryFolder root_;
};

TEST_F(GatedDevicesTest, AreAskedForByTheWordEnabled) {
  RecordProperty("holds", "container-toolkit.md #114");
  const auto all =
      FindGatedRequests(Container({"NVIDIA_GDS=enabled", "NVIDIA_MOFED=enabled",
                                   "NVIDIA_GDRCOPY=enabled", "NVIDIA_NVSWITCH=enabled"}),
                        {});
  EXPECT_THAT(all->classes, ElementsAre("gds", "mofed", "gdrcopy", "nvswitch"));
  EXPECT_TRUE(FindGatedRequests(Container({"NVIDIA_GDS=true", "NVIDIA_MOFED="}), {})->empty());
}

TEST_F(GatedDevicesTest, OfAContainerThatIsNotPrivilegedCountWhereThoseOfGpusDo) {
  Config config;
  config.accept_env_when_unprivileged = false;
  const std::vector<std::string> env = {"NVIDIA_GDS=enabled", "NVIDIA_IMEX_CHANNELS=3"};
  const auto refused = FindGatedRequests(Container(env), config);
  EXPECT_TRUE(refused->empty());
  ASSERT_EQ(refused->warnings.size(), 1U);
  EXPECT_THAT(refused->warnings[0], HasSubstr("NVIDIA_GDS, NVIDIA_IMEX_CHANNELS"));
  const auto taken = FindGatedRequests(Container(env, true), config);
  EXPECT_THAT(taken->classes, ElementsAre("gds"));
  EXPECT_THAT(taken->imex_channels, ElementsAre(3));
}

TEST_F(GatedDevicesTest, ImexChannelsAreNumbers) {
  RecordProperty("holds", "container-toolkit.md #116");
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=3,4"})), ElementsAre(3, 4));
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=3,4", "CUDA_VERSION=9.0"})),
              ElementsAre(3, 4));
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=channel7,7"})), ElementsAre(7));
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=all"})), IsEmpty());
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=none"})), IsEmpty());
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=void,3"})), IsEmpty());
  for (const char* wrong : {"x", "-1", "1048576"}) {
    const auto found =
        FindGatedRequests(Container({std::string("NVIDIA_IMEX_CHANNELS=") + wrong}), {});
    ASSERT_FALSE(found.has_value()) << wrong;
    EXPECT_EQ(found.error().reason, "InvalidImexChannel");
  }
  EXPECT_THAT(Channels(Container({"NVIDIA_IMEX_CHANNELS=1048575"})), ElementsAre(1048575));
}

TEST_F(GatedDevicesTest, ImexChannelsCanBeMountsAndBeSwitchedOff) {
  RecordProperty("holds", "container-toolkit.md #116");
  const auto spec =
      Container({"NVIDIA_IMEX_CHANNELS=1"}, false, {"/var/run/nvidia-container-devices/imex/5"});
  EXPECT_THAT(Channels(spec), ElementsAre(1));
  Config config;
  config.accept_devices_as_mounts = true;
  EXPECT_THAT(Channels(spec, config), ElementsAre(5));
  config.ignore_imex_channels = true;
  EXPECT_THAT(Channels(spec, config), IsEmpty());
}

TEST_F(GatedDevicesTest, AreTheNodesThatThereAreNow) {
  MakeNode("dev/nvidia-fs1");
  MakeNode("dev/nvidia-fs0");
  MakeNode("dev/infiniband/uverbs0");
  MakeNode("dev/infiniband/umad0");
  root_.Write("dev/nvidia-fs-notes", "no device");
  root_.Write("etc/cufile.json", "{}");
  const auto edits = Edits({.classes = {"gds", "mofed"}});
  ASSERT_EQ(edits.device_nodes.size(), 3U);
  EXPECT_EQ(edits.device_nodes[0].path, "/dev/nvidia-fs0");
  EXPECT_EQ(edits.device_nodes[0].host_path, (root_.path() / "dev/nvidia-fs0").string());
  EXPECT_EQ(edits.device_nodes[1].path, "/dev/nvidia-fs1");
  EXPECT_EQ(edits.device_nodes[2].path, "/dev/infiniband/uverbs0");
  ASSERT_EQ(edits.mounts.size(), 1U);
  EXPECT_EQ(edits.mounts[0].container_path, "/etc/cufile.json");
}

TEST_F(GatedDevicesTest, ThatTheNodeDoesNotHaveAreAWarning) {
  root_.Write("etc/cufile.json", "{}");
  GatedRequests requests = {.classes = {"gds", "gdrcopy"}};
  const auto edits = GatedEdits(requests, root_.path());
  ASSERT_TRUE(edits.has_value());
  EXPECT_EQ(*edits, cdi::ContainerEdits());
  ASSERT_EQ(requests.warnings.size(), 2U);
  EXPECT_THAT(requests.warnings[0], HasSubstr("gds"));
}

TEST_F(GatedDevicesTest, AChannelThatIsNotThereIsAnError) {
  MakeNode("dev/nvidia-caps-imex-channels/channel3");
  EXPECT_EQ(Edits({.imex_channels = {3}}).device_nodes.front().path,
            "/dev/nvidia-caps-imex-channels/channel3");
  GatedRequests requests = {.imex_channels = {3, 4}};
  const auto edits = GatedEdits(requests, root_.path());
  ASSERT_FALSE(edits.has_value());
  EXPECT_EQ(edits.error().reason, "NoImexChannel");
  EXPECT_THAT(edits.error().message, HasSubstr("channel4"));
}

}  // namespace
}  // namespace pitcrew::shim

#include "node/vgpu_device_manager/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::node::vgpu_device_manager {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

const Variables kOperators = {{"NODE_NAME", "gpu-1"},
                              {"NAMESPACE", "gpu-operator"},
                              {"CONFIG_FILE", "/vgpu-config/config.yaml"},
                              {"DEFAULT_VGPU_CONFIG", "default"}};

base::Result<std::optional<Options>> Read(const Variables& variables,
                                          std::vector<const char*> words = {}) {
  words.insert(words.begin(), "nvidia-k8s-vgpu-dm");
  return ReadOptions(static_cast<int>(words.size()), words.data(),
                     [&](const std::string& name) -> std::optional<std::string> {
                       const auto found = variables.find(name);
                       return found == variables.end() ? std::nullopt
                                                       : std::optional(found->second);
                     });
}

TEST(VgpuDeviceManagerOptions, WhatTheOperatorSets) {
  const auto options = Read(kOperators);
  ASSERT_TRUE(options) << options.error().ToString();
  EXPECT_EQ((*options)->node_name, "gpu-1");
  EXPECT_EQ((*options)->namespace_name, "gpu-operator");
  EXPECT_EQ((*options)->config_file, "/vgpu-config/config.yaml");
  EXPECT_EQ((*options)->default_config, "default");
  EXPECT_EQ((*options)->host_root, "/host");
  EXPECT_EQ((*options)->driver_root, "/driver-root");
  EXPECT_EQ((*options)->journal(), "/host/run/nvidia/vgpu/journal.json");
}

TEST(VgpuDeviceManagerOptions, FlagsWin) {
  const auto options =
      Read(kOperators, {"-n", "gpu-2", "-ns", "space", "-f", "/c", "-d", "other", "-m", "/root",
                        "-a", "/drivers", "-o", "/o", "-k", "k3s.service", "-g", "/g"});
  ASSERT_TRUE(options) << options.error().ToString();
  EXPECT_EQ((*options)->node_name, "gpu-2");
  EXPECT_EQ((*options)->namespace_name, "space");
  EXPECT_EQ((*options)->config_file, "/c");
  EXPECT_EQ((*options)->default_config, "other");
  EXPECT_EQ((*options)->host_root, "/root");
  EXPECT_EQ((*options)->driver_root, "/drivers");
}

TEST(VgpuDeviceManagerOptions, WhatIsRequiredIsNamed) {
  for (const auto& [variable, flag] : Variables{{"NODE_NAME", "<node-name>"},
                                                {"NAMESPACE", "<namespace>"},
                                                {"CONFIG_FILE", "<config-file>"},
                                                {"DEFAULT_VGPU_CONFIG", "<default-vgpu-config>"}}) {
    auto variables = kOperators;
    variables[variable] = "";
    EXPECT_THAT(Read(variables).error().message,
                HasSubstr("invalid " + flag + " flag: must not be empty string"));
  }
}

TEST(VgpuDeviceManagerOptions, WhatIsNotThereIsRefusedByName) {
  EXPECT_THAT(Read(kOperators, {"--with-reboot"}).error().message, HasSubstr("WITH_REBOOT"));
  EXPECT_THAT(Read(kOperators, {"-w"}).error().message,
              HasSubstr("WITH_SHUTDOWN_HOST_GPU_CLIENTS"));
  EXPECT_TRUE(Read(kOperators, {"--with-reboot=false"}));
}

}  // namespace
}  // namespace pitcrew::node::vgpu_device_manager

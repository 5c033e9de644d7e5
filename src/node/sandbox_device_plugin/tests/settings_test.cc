#include "node/sandbox_device_plugin/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

base::Result<std::optional<Options>> Parse(Client client, std::vector<const char*> words,
                                           std::map<std::string, std::string> environment = {}) {
  words.insert(words.begin(), "program");
  return ParseOptions(client, static_cast<int>(words.size()), words.data(),
                      [environment](const std::string& name) -> std::optional<std::string> {
                        const auto found = environment.find(name);
                        if (found == environment.end()) return std::nullopt;
                        return found->second;
                      });
}

TEST(Settings, DefaultsAreUpstreams) {
  const auto kubevirt = **Parse(Client::kKubevirt, {});
  EXPECT_EQ(kubevirt.pci_ids, "/usr/pci.ids");
  EXPECT_EQ(kubevirt.kubelet_socket, "/var/lib/kubelet/device-plugins/kubelet.sock");
  EXPECT_EQ(kubevirt.metrics_address, "");
  EXPECT_EQ(kubevirt.gpu_alias, "") << "of Kata's plugin only";
  const auto kata = **Parse(Client::kKata, {});
  EXPECT_EQ(kata.gpu_alias, "pgpu");
  EXPECT_EQ(kata.switch_alias, "nvswitch");
  EXPECT_THAT(kata.warnings, IsEmpty());
}

TEST(Settings, Aliases) {
  const auto own = **Parse(Client::kKata, {}, {{"P_GPU_ALIAS", ""}, {"NVSWITCH_ALIAS", "switch"}});
  EXPECT_EQ(own.gpu_alias, "") << "set and empty: the models' names";
  EXPECT_EQ(own.switch_alias, "switch");
  for (const char* bad : {"1gpu", "gpu_", "a b", "a/b", "nvswitch"}) {
    const auto refused = Parse(Client::kKata, {}, {{"P_GPU_ALIAS", bad}});
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().reason, "BadAlias");
    EXPECT_THAT(refused.error().message, HasSubstr(bad));
  }
}

TEST(Settings, WhatIsMissingIsNamed) {
  const auto gfd = **Parse(Client::kKata, {}, {{"ENABLE_GFD", "true"}});
  EXPECT_THAT(gfd.warnings, ElementsAre(HasSubstr("ENABLE_GFD is set and has no effect")));
  EXPECT_EQ(Parse(Client::kKubevirt, {"--gpu-alias=x"}).error().reason, "BadUsage");
  EXPECT_EQ(*Parse(Client::kKubevirt, {"--help"}), std::nullopt);
}

}  // namespace
}  // namespace pitcrew::node::sandbox_device_plugin

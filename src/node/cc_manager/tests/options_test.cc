#include "node/cc_manager/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::node::cc_manager {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

base::Result<std::optional<Options>> Read(const Variables& variables,
                                          std::vector<const char*> words = {}) {
  words.insert(words.begin(), "k8s-cc-manager");
  return ReadOptions(static_cast<int>(words.size()), words.data(),
                     [&](const std::string& name) -> std::optional<std::string> {
                       const auto found = variables.find(name);
                       return found == variables.end() ? std::nullopt
                                                       : std::optional(found->second);
                     });
}

TEST(CcManagerOptions, Defaults) {
  const auto options = Read({{"NODE_NAME", "gpu-1"}});
  ASSERT_TRUE(options) << options.error().ToString();
  EXPECT_EQ((*options)->node_name, "gpu-1");
  EXPECT_EQ((*options)->default_mode, "on");
  EXPECT_EQ((*options)->ready_file, "/run/nvidia/validations/.cc-manager-ctr-ready");
  EXPECT_TRUE((*options)->pause_operands);
  EXPECT_EQ((*options)->host_root, "/host");
  EXPECT_EQ((*options)->namespace_name, "") << "that of its own pod";
}

TEST(CcManagerOptions, FlagsAndVariables) {
  const auto options = Read({{"NODE_NAME", "gpu-1"},
                             {"DEFAULT_CC_MODE", "devtools"},
                             {"CC_READINESS_FILE", "/ready"},
                             {"OPERATOR_NAMESPACE", "nvidia-gpu-operator"},
                             {"EVICT_OPERATOR_COMPONENTS", "no"}},
                            {"-m", "ppcie", "--debug"});
  ASSERT_TRUE(options) << options.error().ToString();
  EXPECT_EQ((*options)->default_mode, "ppcie");
  EXPECT_EQ((*options)->ready_file, "/ready");
  EXPECT_EQ((*options)->namespace_name, "nvidia-gpu-operator");
  EXPECT_FALSE((*options)->pause_operands);
}

TEST(CcManagerOptions, WhatIsWrongIsNamed) {
  EXPECT_THAT(Read({}).error().message, HasSubstr("NODE_NAME"));
  EXPECT_THAT(Read({{"NODE_NAME", "n"}, {"DEFAULT_CC_MODE", "On"}}).error().message,
              HasSubstr("there is no mode \"On\" of confidential computing; there are on, off"));
  EXPECT_FALSE(Read({{"NODE_NAME", "n"}}, {"--no-such-flag"}));
}

}  // namespace
}  // namespace pitcrew::node::cc_manager

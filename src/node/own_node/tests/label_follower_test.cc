#include "node/own_node/label_follower.h"

#include <gtest/gtest.h>

namespace pitcrew::node::own_node {
namespace {

TEST(LabelFollower, WhatMayPass) {
  const auto after = [](base::Code code) { return AfterFailure(base::Error{code, "R", "m"}); };
  EXPECT_EQ(after(base::Code::kConflict), Followed::kMayPass) << "a virtual machine ends some day";
  EXPECT_EQ(after(base::Code::kUnavailable), Followed::kMayPass);
  EXPECT_EQ(after(base::Code::kTimeout), Followed::kMayPass);
  EXPECT_EQ(after(base::Code::kInvalid), Followed::kFailed);
  EXPECT_EQ(after(base::Code::kUnsupported), Followed::kFailed);
}

TEST(LabelFollower, ChangesOfAConfiguration) {
  const auto concerns = [](const std::string& name) {
    return IsChangeOf("/config/config.yaml",
                      {.kind = io::FileChange::Kind::kChanged, .folder = "/config", .name = name});
  };
  EXPECT_TRUE(concerns("config.yaml"));
  EXPECT_TRUE(concerns("..data")) << "of a ConfigMap";
  EXPECT_TRUE(concerns("")) << "nobody knows of what";
  EXPECT_FALSE(concerns("manager.log"));
  EXPECT_FALSE(concerns("..data_tmp"));
}

}  // namespace
}  // namespace pitcrew::node::own_node

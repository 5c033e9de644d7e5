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

}  // namespace
}  // namespace pitcrew::node::own_node

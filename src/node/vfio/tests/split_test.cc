#include "node/vfio/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/vfio/bundle.h"
#include "node/vfio/tests/support_tree.h"

namespace pitcrew::node::vfio {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Tree;

class SplitTest : public ::testing::Test {
 protected:
  SplitTest() {
    tree_.Add({.address = "0000:17:00.0", .group = 11});
    tree_.Add({.address = "0000:65:00.0", .group = 12});
    tree_.Add({.address = "0000:66:00.0", .group = 12});
    tree_.Add({.address = "0000:b3:00.0", .group = 13});
    tree_.Add({.address = "0000:07:00.0", .class_code = "0x068000", .device = "0x22a3"});
  }
  [[nodiscard]] base::Error Refusal(std::string_view list) const {
    const auto split = ReadSplit(tree_.ReadAll(), list);
    EXPECT_FALSE(split) << list;
    return split ? base::Error{} : split.error();
  }
  const Tree tree_;
};

TEST_F(SplitTest, NamesGpusByTheirAddresses) {
  const auto split = ReadSplit(tree_.ReadAll(), " 0000:17:00.0,00000000:B3:00.0 ");
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_THAT(*split, ElementsAre(Tree::At("0000:17:00.0"), Tree::At("0000:b3:00.0")));
  const auto node = tree_.ReadAll();
  const auto only = SelectDevices(node, {.only = *split});
  const auto others = SelectDevices(node, {.except = *split});
  ASSERT_EQ(only->size(), 2U);
  EXPECT_EQ(only->front().address, Tree::At("0000:17:00.0"));
  ASSERT_EQ(others->size(), 2U);
  EXPECT_EQ(others->front().address, Tree::At("0000:65:00.0"));
}

TEST_F(SplitTest, AGroupGoesWholeOrNotAtAll) {
  EXPECT_TRUE(ReadSplit(tree_.ReadAll(), "0000:65:00.0,0000:66:00.0"));
  const auto refusal = Refusal("0000:65:00.0,0000:b3:00.0");
  EXPECT_EQ(refusal.reason, "IommuGroupShared");
  EXPECT_THAT(refusal.message, HasSubstr("0000:65:00.0 and 0000:66:00.0"));
}

TEST_F(SplitTest, WhatIsNoGpuIsNamedWithThoseThatAre) {
  EXPECT_EQ(Refusal("0000:65:00.0,1").reason, "InvalidPciAddress");
  EXPECT_THAT(Refusal("0000:65:00.0,1").message, HasSubstr("\"1\""));
  for (const char* list : {"0000:99:00.0", "0000:07:00.0"}) {
    EXPECT_EQ(Refusal(list).reason, "UnknownGpu") << list;
    EXPECT_THAT(Refusal(list).message, HasSubstr("0000:17:00.0, 0000:65:00.0"));
  }
}

TEST_F(SplitTest, AllOfThemAreAnotherWorkload) {
  const auto refusal = Refusal("0000:17:00.0,0000:65:00.0,0000:66:00.0,0000:b3:00.0");
  EXPECT_EQ(refusal.reason, "NoGpuForContainers");
  EXPECT_THAT(refusal.message, HasSubstr("vm-passthrough"));
}

}  // namespace
}  // namespace pitcrew::node::vfio
